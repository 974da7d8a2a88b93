#pragma once

#include <arrow/type.h>

#include <string>
#include <vector>

#include "key/key_type.h"

namespace thalweg::report {

/// Encoded values of one column as short texts for the ends and marks of an axis: numbers with
/// digits grouped, decimals with their point, dates and times (UTC) only as fine as the values are
/// apart, strings quoted and shortened. The texts may be equal where the values are close. What is
/// no encoded value of the type is shown in hexadecimal.
std::vector<std::string> ShowValues(const arrow::DataType& type, const KeyType& key_type,
                                    const std::vector<std::string>& encoded);

}  // namespace thalweg::report
