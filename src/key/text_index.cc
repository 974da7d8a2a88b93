#include <algorithm>
#include <bit>
#include <cstring>

#include "key/text_index_internal.h"

namespace thalweg {
namespace {

constexpr uint32_t kCompared = 8;  // so many strings with equal words are compared one by one

uint64_t WordAt(std::string_view text, size_t at) {
  static_assert(std::endian::native == std::endian::little);
  uint64_t word = 0;
  if (text.size() >= at + sizeof(word)) {
    std::memcpy(&word, text.data() + at, sizeof(word));
  } else if (text.size() > at) {
    std::memcpy(&word, text.data() + at, text.size() - at);
  }
  return __builtin_bswap64(word);
}

size_t CommonPrefix(std::string_view a, std::string_view b) {
  const size_t most = std::min(a.size(), b.size());
  return static_cast<size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<int64_t>(most), b.begin()).first -
      a.begin());
}

}  // namespace

TextIndex::TextIndex(const std::vector<std::string>& sorted)
    : size_(static_cast<int64_t>(sorted.size())) {
  if (sorted.empty()) return;
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (i > 0 && sorted[i] == sorted[i - 1]) {
      last_rank_.back() = static_cast<uint32_t>(i);
      continue;
    }
    offsets_.push_back(static_cast<uint32_t>(bytes_.size()));
    bytes_ += sorted[i];
    last_rank_.push_back(static_cast<uint32_t>(i));
  }
  offsets_.push_back(static_cast<uint32_t>(bytes_.size()));
  // Breadth first; BuildNode appends to nodes_, so references into it do not survive a call.
  BuildNode(0, static_cast<uint32_t>(last_rank_.size()));
  for (size_t at = 0; at < nodes_.size(); ++at) {
    for (size_t j = 0; j < nodes_[at].words.size(); ++j) {
      // Strings that end within the word differ in length only: eight at most, and before all
      // others of the word.
      uint32_t begin = nodes_[at].starts[j];
      const uint32_t end = nodes_[at].starts[j + 1];
      while (begin < end && Distinct(begin).size() < nodes_[at].skip + sizeof(uint64_t)) ++begin;
      if (end - begin <= kCompared) continue;
      const int32_t child = BuildNode(begin, end);
      if (nodes_[at].child.empty()) nodes_[at].child.resize(nodes_[at].words.size(), -1);
      nodes_[at].child[j] = child;
    }
  }
}

int32_t TextIndex::BuildNode(uint32_t begin, uint32_t end) {
  Node node{begin, end, CommonPrefix(Distinct(begin), Distinct(end - 1)), {}, {}, {}, {}};
  for (uint32_t i = begin; i < end; ++i) {
    const uint64_t word = WordAt(Distinct(i), node.skip);
    if (node.words.empty() || node.words.back() != word) {
      node.words.push_back(word);
      node.starts.push_back(i);
    }
  }
  node.starts.push_back(end);
  node.tree = RankTree(node.words);
  nodes_.push_back(std::move(node));
  return static_cast<int32_t>(nodes_.size() - 1);
}

uint32_t TextIndex::FinishWord(const Node& node, std::string_view value, uint64_t word,
                               uint32_t rank) const {
  if (node.words[rank] != word) return node.words[rank] < word ? node.starts[rank + 1] : node.begin;
  const Node* child = node.child.empty() || node.child[rank] < 0
                          ? nullptr
                          : &nodes_[static_cast<size_t>(node.child[rank])];
  const uint32_t end = child != nullptr ? child->begin : node.starts[rank + 1];
  const std::string_view rest = value.substr(node.skip);
  for (uint32_t i = node.starts[rank]; i < end; ++i) {
    if (Distinct(i).substr(node.skip) > rest) return i;
  }
  return child != nullptr ? CountNotAbove(*child, node.skip, value) : end;
}

uint32_t TextIndex::CountNotAbove(const Node& node, size_t known, std::string_view value) const {
  const std::string_view prefix = Distinct(node.begin).substr(0, node.skip);
  const int order = value.substr(known, prefix.size() - known).compare(prefix.substr(known));
  if (order != 0) return order < 0 ? node.begin : node.end;
  const uint64_t word = WordAt(value, node.skip);
  uint32_t rank;
  node.tree.Ranks(&word, 1, &rank);
  return FinishWord(node, value, word, rank);
}

void TextIndex::Ranks(const std::string_view* values, int64_t n, uint32_t* ranks) const {
  if (size_ == 0) {
    std::fill(ranks, ranks + n, 0u);
    return;
  }
  constexpr int64_t kBlock = 256;
  const Node& root = nodes_[0];
  const std::string_view prefix = Distinct(0).substr(0, root.skip);
  uint64_t words[kBlock];
  int order[kBlock];
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t count = std::min(kBlock, n - begin);
    for (int64_t i = 0; i < count; ++i) {
      const std::string_view value = values[begin + i];
      order[i] = value.substr(0, prefix.size()).compare(prefix);
      words[i] = order[i] == 0 ? WordAt(value, root.skip) : 0;
    }
    uint32_t* found = ranks + begin;
    root.tree.Ranks(words, count, found);
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t not_above = order[i] < 0 ? 0
                                 : order[i] > 0
                                     ? root.end
                                     : FinishWord(root, values[begin + i], words[i], found[i]);
      found[i] = not_above == 0 ? 0 : last_rank_[not_above - 1];
    }
  }
}

std::string_view TextIndex::text(int64_t i) const {
  const auto at = std::lower_bound(last_rank_.begin(), last_rank_.end(), static_cast<uint32_t>(i));
  return Distinct(static_cast<uint32_t>(at - last_rank_.begin()));
}

}  // namespace thalweg
