#include "engine/layout.h"

#include <algorithm>
#include <numeric>

namespace bipointnet {
namespace {

std::size_t span_for(std::size_t elements) {
  if (elements > 64) return (elements + 63) / 64 * 64;
  std::size_t span = 8;
  while (span < elements) span *= 2;
  return span;
}

std::size_t tight_span(std::size_t elements) {
  const std::size_t span = span_for(elements);
  return span <= 64 && 64 / std::max<std::size_t>(elements, 8) > 64 / span ? elements : span;
}

// Appends blocks for the groups at the places from `first` to `last` - 1.
void append(GroupLayout& layout, std::size_t first, std::size_t last, std::size_t span, std::size_t lanes) {
  if (span > lanes) {
    for (std::size_t place = first; place < last; ++place) {
      for (std::size_t slot = 0; slot < span; slot += lanes) {
        layout.blocks.push_back({place, 1, lanes, slot, slot + lanes >= span});
      }
    }
    return;
  }
  const std::size_t together = span <= 64 ? 64 / span * (lanes / 64) : lanes / span;
  for (std::size_t place = first; place < last; place += together) {
    layout.blocks.push_back({place, std::min(together, last - place), span, 0, true});
  }
}

}  // namespace

GroupLayout layout_of(std::size_t groups, std::size_t slots, std::size_t lanes) {
  GroupLayout layout;
  layout.slots = slots;
  append(layout, 0, groups, tight_span(slots), lanes);
  return layout;
}

GroupLayout layout_by_counts(const std::vector<std::uint32_t>& counts, std::size_t slots, std::size_t lanes) {
  GroupLayout layout;
  layout.slots = slots;
  layout.order.resize(counts.size());
  std::iota(layout.order.begin(), layout.order.end(), 0u);
  std::stable_sort(layout.order.begin(), layout.order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return counts[a] < counts[b]; });
  for (std::size_t first = 0; first < counts.size();) {
    const std::size_t span = span_for(counts[layout.order[first]]);
    std::size_t last = first;
    while (last < counts.size() && span_for(counts[layout.order[last]]) == span) ++last;
    append(layout, first, last, span, lanes);
    first = last;
  }
  return layout;
}

}  // namespace bipointnet
