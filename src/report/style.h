#pragma once

namespace thalweg::report {

/// The page's only style sheet: light and dark as the reader's system asks for, and for print. Blue
/// and orange are told apart by readers with any colour blindness; nothing is said by colour alone.
extern const char kStyle[];

}  // namespace thalweg::report
