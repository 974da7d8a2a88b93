#include "spec/column_count.h"

#include "util/status.h"

namespace thalweg {

arrow::Status CheckColumnCount(size_t count, bool allow_single) {
  if (count > 4) return Usage("{} clustering columns: at most four are possible", count);
  if (count < 2 && !(count == 1 && allow_single)) {
    return Usage(
        "{} clustering column{}: declare two to four (one is accepted with --allow-single)", count,
        count == 1 ? "" : "s");
  }
  return arrow::Status::OK();
}

}  // namespace thalweg
