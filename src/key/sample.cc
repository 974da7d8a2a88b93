#include "key/sample.h"

#include <algorithm>
#include <type_traits>

#include "key/column_values_internal.h"
#include "key/encoded_value_internal.h"
#include "util/status.h"

namespace thalweg {
namespace {

// Step 2 of typed-quantile-rank-v1.
constexpr int64_t kSampleLimit = 65536;
constexpr int64_t kByteLimit = int64_t{8} << 20;
constexpr int64_t kEntryOverhead = 40;
constexpr uint64_t kSeed = 0x4c414e43455f514e;
constexpr uint64_t kColumnStep = 0x9e3779b97f4a7c15;

uint64_t Finalise(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

uint64_t ColumnMix(int column_position) {
  return static_cast<uint64_t>(column_position) * kColumnStep ^ kSeed;
}

// The candidates of smallest (priority, address) and, until the next compaction, others. Twice the
// number that is kept is let in before the surplus is selected away, which makes an insertion a
// constant amount of work.
template <typename Value>
struct Reservoir {
  struct Entry {
    uint64_t priority;
    uint64_t address;
    Value value;
    bool operator<(const Entry& other) const {
      return priority != other.priority ? priority < other.priority : address < other.address;
    }
  };
  std::vector<Entry> entries;
  uint64_t highest = UINT64_MAX;  // a candidate of a higher priority value is not among the kept

  void Compact(size_t keep) {
    if (entries.size() <= keep) return;
    if (keep > 0) {
      std::nth_element(entries.begin(), entries.begin() + static_cast<int64_t>(keep) - 1,
                       entries.end());
      highest = entries[keep - 1].priority;
    }
    entries.erase(entries.begin() + static_cast<int64_t>(keep), entries.end());
  }

  void Push(size_t keep, Entry entry) {
    entries.push_back(std::move(entry));
    if (entries.size() >= 2 * keep) Compact(keep);
  }
};

// Encoded width of the widest non-null text.
int64_t WidestText(const arrow::Array& values) {
  int64_t widest = -1;
  auto see = [&](int64_t bytes) { widest = std::max(widest, bytes); };
  if (values.type_id() == arrow::Type::DICTIONARY) {
    // Only what rows refer to is a candidate.
    const auto& array = static_cast<const arrow::DictionaryArray&>(values);
    std::vector<uint8_t> used(static_cast<size_t>(array.dictionary()->length()));
    VisitDictionaryIndices(array, [&](int64_t, int64_t at) { used[static_cast<size_t>(at)] = 1; });
    for (size_t at = 0; at < used.size(); ++at) {
      const auto row = static_cast<int64_t>(at);
      if (used[at] && array.dictionary()->IsValid(row)) {
        see(static_cast<int64_t>(TextAt(*array.dictionary(), row).size()));
      }
    }
  } else if (values.type_id() == arrow::Type::STRING && values.null_count() == 0) {
    const auto* offsets = static_cast<const arrow::StringArray&>(values).raw_value_offsets();
    for (int64_t row = 0; row < values.length(); ++row) see(offsets[row + 1] - offsets[row]);
  } else {
    for (int64_t row = 0; row < values.length(); ++row) {
      if (values.IsValid(row)) see(static_cast<int64_t>(TextAt(values, row).size()));
    }
  }
  return widest < 0 ? 0 : EncodedTextLength(widest);
}

bool AllNull(const arrow::Array& values) {
  if (values.null_count() == values.length()) return true;
  if (values.type_id() != arrow::Type::DICTIONARY) return false;
  const auto& array = static_cast<const arrow::DictionaryArray&>(values);
  if (array.dictionary()->null_count() == 0) return false;
  bool all = true;
  VisitDictionaryIndices(array,
                         [&](int64_t, int64_t at) { all &= array.dictionary()->IsNull(at); });
  return all;
}

}  // namespace

uint64_t SamplePriority(uint64_t address, int column_position) {
  return Finalise(address ^ ColumnMix(column_position));
}

struct ColumnSample::Impl {
  Impl(KeyType type, int column_position) : type(type), column_position(column_position) {}

  KeyType type;
  int column_position;
  int64_t width = 0;              // of the widest candidate, encoded; 0 before the first
  Reservoir<MappedValue> values;  // of a fixed-width type
  Reservoir<std::string> texts;   // of a string type

  size_t Keep() const {
    return static_cast<size_t>(std::min(kSampleLimit, kByteLimit / (width + kEntryOverhead)));
  }

  // Calls f with the one reservoir that this type uses.
  template <typename F>
  auto WithReservoir(F f) const {
    return type.fixed_width() ? f(values) : f(texts);
  }

  template <typename Value>
  Value ValueAt(const arrow::Array& array, int64_t row) const {
    if constexpr (std::is_same_v<Value, MappedValue>) {
      return MappedAt(type, array, row);
    } else {
      return std::string(TextAt(array, row));
    }
  }

  template <typename Value>
  void AddRows(const arrow::Array& array, uint64_t first_address, const uint64_t* addresses,
               Reservoir<Value>& reservoir) {
    constexpr int64_t kBlock = 512;
    const size_t keep = Keep();
    const uint64_t mix = ColumnMix(column_position);
    uint64_t priorities[kBlock];
    int32_t low[kBlock];
    for (int64_t begin = 0; begin < array.length(); begin += kBlock) {
      const int64_t n = std::min(kBlock, array.length() - begin);
      if (addresses != nullptr) {
        for (int64_t i = 0; i < n; ++i) priorities[i] = Finalise(addresses[begin + i] ^ mix);
      } else {
        const uint64_t first = first_address + static_cast<uint64_t>(begin);
        for (int64_t i = 0; i < n; ++i)
          priorities[i] = Finalise((first + static_cast<uint64_t>(i)) ^ mix);
      }
      int64_t count = 0;
      for (int64_t i = 0; i < n; ++i) {
        low[count] = static_cast<int32_t>(i);
        count += priorities[i] <= reservoir.highest;
      }
      for (int64_t c = 0; c < count; ++c) {
        const int64_t i = low[c];
        if (priorities[i] > reservoir.highest) continue;  // a compaction has come between
        const ResolvedRow at = ResolveRow(array, begin + i);
        if (at.row < 0) continue;
        const uint64_t address = addresses != nullptr
                                     ? addresses[begin + i]
                                     : first_address + static_cast<uint64_t>(begin + i);
        reservoir.Push(keep, {priorities[i], address, ValueAt<Value>(*at.values, at.row)});
      }
    }
  }

  template <typename Value>
  void MergeRows(const Reservoir<Value>& from, Reservoir<Value>& reservoir) {
    const size_t keep = Keep();
    for (const auto& entry : from.entries) {
      if (entry.priority <= reservoir.highest) reservoir.Push(keep, entry);
    }
  }

  void Widen(int64_t candidate_width) {
    width = std::max(width, candidate_width);
    const size_t keep = Keep();
    if (values.entries.size() > 2 * keep) values.Compact(keep);
    if (texts.entries.size() > 2 * keep) texts.Compact(keep);
  }
};

ColumnSample::ColumnSample(KeyType type, int column_position)
    : impl_(std::make_unique<Impl>(type, column_position)) {}
ColumnSample::~ColumnSample() = default;
ColumnSample::ColumnSample(ColumnSample&&) noexcept = default;
ColumnSample& ColumnSample::operator=(ColumnSample&&) noexcept = default;

arrow::Status ColumnSample::Add(const arrow::Array& values, uint64_t first_address,
                                const uint64_t* addresses) {
  ARROW_RETURN_NOT_OK(CheckKeyType(impl_->type, *values.type()));
  if (AllNull(values)) return arrow::Status::OK();
  impl_->Widen(impl_->type.fixed_width() ? impl_->type.encoded_width() : WidestText(values));
  if (impl_->Keep() == 0) return arrow::Status::OK();  // reported when the sample is asked for
  if (impl_->type.fixed_width()) {
    impl_->AddRows(values, first_address, addresses, impl_->values);
  } else {
    impl_->AddRows(values, first_address, addresses, impl_->texts);
  }
  return arrow::Status::OK();
}

arrow::Status ColumnSample::Merge(const ColumnSample& other) {
  if (!(impl_->type == other.impl_->type) ||
      impl_->column_position != other.impl_->column_position) {
    return Invalid("samples of different columns cannot be merged");
  }
  if (this == &other) return Invalid("a sample cannot be merged with itself");
  impl_->Widen(other.impl_->width);
  if (impl_->Keep() == 0) return arrow::Status::OK();
  impl_->MergeRows(other.impl_->values, impl_->values);
  impl_->MergeRows(other.impl_->texts, impl_->texts);
  return arrow::Status::OK();
}

arrow::Result<std::vector<ColumnSample::Candidate>> ColumnSample::Retained() const {
  const size_t keep = impl_->Keep();
  if (keep == 0) {
    return Invalid(
        "the widest value of the clustering column takes {} bytes encoded: no sample of it fits {} "
        "bytes",
        impl_->width, kByteLimit);
  }
  return impl_->WithReservoir([&](const auto& reservoir) {
    auto kept = reservoir;
    kept.Compact(keep);
    std::sort(kept.entries.begin(), kept.entries.end());
    std::vector<Candidate> candidates;
    candidates.reserve(kept.entries.size());
    for (const auto& entry : kept.entries) {
      std::string encoded;
      if constexpr (std::is_same_v<decltype(entry.value), MappedValue>) {
        encoded = EncodeMapped(impl_->type, entry.value);
      } else {
        encoded = EncodeText(entry.value);
      }
      candidates.push_back({entry.priority, entry.address, std::move(encoded)});
    }
    return candidates;
  });
}

int64_t ColumnSample::width() const { return impl_->width; }

arrow::Result<ColumnSample> ColumnSample::FromRetained(KeyType type, int column_position,
                                                       int64_t width,
                                                       const std::vector<Candidate>& candidates) {
  ColumnSample sample(type, column_position);
  sample.impl_->Widen(width);
  const size_t keep = sample.impl_->Keep();
  if (candidates.size() > keep) {
    return Invalid("a sample of {} values of up to {} bytes: at most {} can be", candidates.size(),
                   width, keep);
  }
  for (const auto& candidate : candidates) {
    const uint64_t priority = SamplePriority(candidate.address, column_position);
    if (type.fixed_width()) {
      ARROW_ASSIGN_OR_RAISE(auto value, DecodeMapped(type, candidate.encoded));
      sample.impl_->values.Push(keep, {priority, candidate.address, value});
    } else {
      ARROW_ASSIGN_OR_RAISE(auto text, DecodeText(candidate.encoded));
      if (static_cast<int64_t>(candidate.encoded.size()) > width) {
        return Invalid("a sampled value of {} bytes: at most {} were said",
                       candidate.encoded.size(), width);
      }
      sample.impl_->texts.Push(keep, {priority, candidate.address, std::move(text)});
    }
  }
  return sample;
}

arrow::Result<ColumnModel> ColumnSample::Finish() const {
  ARROW_ASSIGN_OR_RAISE(auto candidates, Retained());
  std::vector<std::string> sorted;
  sorted.reserve(candidates.size());
  for (auto& candidate : candidates) sorted.push_back(std::move(candidate.encoded));
  std::sort(sorted.begin(), sorted.end());
  return ColumnModel::Make(impl_->type, std::move(sorted));
}

}  // namespace thalweg
