#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "key/rank_tree_internal.h"

namespace thalweg {

/// Ranks in a sorted list of strings, exact however long their common beginnings are: after the
/// common prefix the next eight bytes are looked up as a number; strings that agree in those too
/// are told apart by a nested index or, when few, compared. Immutable and thread-safe.
class TextIndex {
 public:
  TextIndex() = default;
  /// `sorted`: ascending bytewise, duplicates included, fewer than 2^31 strings of less than 2^32
  /// bytes in all.
  explicit TextIndex(const std::vector<std::string>& sorted);

  /// ranks[i] = max(count of strings <= values[i], 1) - 1, and 0 in an empty index.
  void Ranks(const std::string_view* values, int64_t n, uint32_t* ranks) const;

  int64_t size() const { return size_; }
  std::string_view text(int64_t i) const;

 private:
  // The distinct strings [begin, end), which all begin with the same `skip` bytes.
  struct Node {
    uint32_t begin;
    uint32_t end;
    size_t skip;
    RankTree tree;                 // over `words`
    std::vector<uint64_t> words;   // the distinct next eight bytes, big-endian, zero-padded
    std::vector<uint32_t> starts;  // first distinct string of each word, and `end`
    std::vector<int32_t> child;    // of each word: a node over its strings of at least eight more
                                   // bytes, or -1; may be empty
  };

  std::string_view Distinct(uint32_t i) const {
    return std::string_view(bytes_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
  }
  int32_t BuildNode(uint32_t begin, uint32_t end);
  /// How many distinct strings are <= value, which is known to agree with the node's strings in
  /// `known` bytes.
  uint32_t CountNotAbove(const Node& node, size_t known, std::string_view value) const;
  uint32_t FinishWord(const Node& node, std::string_view value, uint64_t word, uint32_t rank) const;

  std::string bytes_;                // the distinct strings
  std::vector<uint32_t> offsets_;    // where each begins, and the end
  std::vector<uint32_t> last_rank_;  // of each distinct string: the position of its last duplicate
  std::vector<Node> nodes_;          // the root first
  int64_t size_ = 0;
};

}  // namespace thalweg
