#pragma once

namespace thalweg {

/// Says how to learn whether the user asked the process to stop (SIGINT, SIGTERM); nullptr: never.
/// For waits that no stop token reaches, those for servers.
void SetInterruptCheck(bool (*check)());

/// True when the user asked to stop.
bool InterruptRequested();

}  // namespace thalweg
