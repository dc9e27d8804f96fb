// How the elements of a domain are put into blocks.
//
// A block of a set holds `lanes` successive elements. A block of groups holds whole groups: each takes a span of lanes,
// from 8 to 64 in one word, or a multiple of 64. A group that is larger than a block takes several blocks, which start at
// different slots. Lanes after the last slot of a group repeat its first element, which changes no maximum.
//
// If the span divides 64, groups follow each other. Else group g is in word g % (lanes / 64), so that the groups at the
// same place of all words have successive numbers, which is how vector instructions deliver them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bipointnet {

struct GroupBlock {
  std::size_t first;   // a place in GroupLayout::order, or a group
  std::size_t groups;  // number of groups
  std::size_t span;    // lanes per group
  std::size_t slot;    // the slot in its first lane: 0, or a multiple of the lanes
  bool last;           // whether its groups end in this block

  // The first lane of group g, in blocks of `words` words.
  std::size_t lane(std::size_t g, std::size_t words) const {
    return span >= 64 || 64 % span == 0 ? g * span : g % words * 64 + g / words * span;
  }
};

struct GroupLayout {
  std::size_t slots = 0;             // per group
  std::vector<GroupBlock> blocks;
  std::vector<std::uint32_t> order;  // the groups in the order of their blocks; empty: 0, 1, 2, ...

  std::size_t group(std::size_t place) const { return order.empty() ? place : order[place]; }
};

// All groups in order, each with the same span, as small as helps: three groups of 20 elements fit into a word, but only
// two of the next power of two.
GroupLayout layout_of(std::size_t groups, std::size_t slots, std::size_t lanes);

// Groups of similar counts next to each other, with spans that fit the counts.
GroupLayout layout_by_counts(const std::vector<std::uint32_t>& counts, std::size_t slots, std::size_t lanes);

}  // namespace bipointnet
