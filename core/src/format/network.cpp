#include "format/network.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>

#include "format/saturating.h"

namespace bipointnet {
namespace {

double rounded(double x, Rounding rounding) {
  switch (rounding) {
    case Rounding::floor: return std::floor(x);
    case Rounding::ceil: return std::ceil(x);
    default: return std::nearbyint(x);  // in the default mode: to nearest, ties to even
  }
}

}  // namespace

std::size_t SizeRule::operator()(std::size_t n) const {
  const double size = rounded(factor * static_cast<double>(n), rounding);
  return static_cast<std::size_t>(std::clamp(size, static_cast<double>(least), static_cast<double>(most)));
}

// A domain comes after its parent and its source. The sets of a file have fewer than 2^32 elements, so only a number of
// groups times their slots can be too large.
std::vector<std::size_t> Network::sizes(std::size_t points) const {
  std::vector<std::size_t> sizes;
  for (const Domain& domain : domains) {
    if (domain.type == Domain::Type::cloud) {
      sizes.push_back(1);
    } else if (domain.source < 0) {
      sizes.push_back(points);
    } else {
      const std::size_t n = sizes[size(domain.source)], count = domain.count(n);
      if (domain.type == Domain::Type::set) {
        sizes.push_back(domain.capped ? std::min(count, n) : count);
      } else {
        const std::uint64_t elements = saturating_product(sizes[size(domain.parent)], count);
        if (elements >= std::numeric_limits<std::size_t>::max()) throw std::bad_alloc();
        sizes.push_back(static_cast<std::size_t>(elements));
      }
    }
  }
  return sizes;
}

const char* name_of(Task task) {
  return task == Task::classify ? "classify" : task == Task::part ? "part" : "semantic";
}

}  // namespace bipointnet
