#include "search/candidates.h"

#include <algorithm>

namespace bipointnet::search {

Candidates::Candidates(const SearchKernels& kernels, const Blocks& blocks, const Labels& labels, std::uint64_t room,
                       std::size_t wanted, bool by_label)
    : kernels_(kernels),
      points_(blocks.points()),
      labels_(labels.data()),
      room_(room),
      by_label_(by_label),
      memory_(Smallest::memory(wanted)),
      selected_(wanted),
      smallest_(kernels, room, wanted, memory_.data()) {}

std::size_t Candidates::find(const double* center, double bound) {
  smallest_.clear();
  for (int block = 0;;) {
    std::int64_t* keys = smallest_.end();
    const int added = kernels_.collect(points_, labels_, room_, center, bound, &block,
                                       static_cast<int>(smallest_.free()), keys);
    if (by_label_) {
      for (int i = 0; i < added; ++i) keys[i] &= static_cast<std::int64_t>(room_);
    }
    smallest_.added(static_cast<std::size_t>(added));
    if (block == points_.blocks) return smallest_.found();
    smallest_.drop();
    if (!by_label_) bound = std::min(bound, smallest_.bound());
  }
}

}  // namespace bipointnet::search
