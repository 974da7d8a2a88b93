#pragma once

#include <arrow/array.h>
#include <arrow/result.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "key/key_type.h"
#include "key/model.h"
#include "util/json.h"

namespace thalweg {

/// A partial sample of one column: the candidates of smallest (priority, address), as steps 2 and 3
/// of typed-quantile-rank-v1 define them. Mergeable: the result does not depend on how rows were
/// split over partial samples nor on the order. Memory is bounded by about twice the format's 8
/// MiB. Not thread-safe; use one per thread and merge.
class ColumnSample {
 public:
  /// `column_position`: the position of the column in the table's schema, which goes into the
  /// priorities.
  ColumnSample(KeyType type, int column_position);
  ~ColumnSample();
  ColumnSample(ColumnSample&&) noexcept;
  ColumnSample& operator=(ColumnSample&&) noexcept;

  /// Row i of `values` has the address `first_address + i`, or `addresses[i]` when given. Nulls are
  /// no candidates. Dictionary arrays are taken as their values.
  arrow::Status Add(const arrow::Array& values, uint64_t first_address,
                    const uint64_t* addresses = nullptr);
  arrow::Status Merge(const ColumnSample& other);

  /// The retained candidates in (priority, address) order; for tests and for sending partial
  /// samples.
  struct Candidate {
    uint64_t priority;
    uint64_t address;
    std::string encoded;
  };
  arrow::Result<std::vector<Candidate>> Retained() const;
  /// Encoded bytes of the widest candidate seen, kept or not: bounds how many are kept.
  int64_t width() const;
  /// What Retained() and width() told, as a sample again. Priorities are taken from the addresses.
  /// Values that are not of the type are an error.
  static arrow::Result<ColumnSample> FromRetained(KeyType type, int column_position, int64_t width,
                                                  const std::vector<Candidate>& candidates);

  /// An error when there were candidates but none fits (K = 0).
  arrow::Result<ColumnModel> Finish() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// SplitMix64 finaliser of (address, column position): the priority of a candidate.
uint64_t SamplePriority(uint64_t address, int column_position);

}  // namespace thalweg
