#include "search/points.h"
#include "search/search.h"

namespace bipointnet::search {

Searches::Searches(const Kernels& kernels, unsigned threads) : kernels_(kernels), threads_(threads) {}

Searches::~Searches() = default;

Points& Searches::prepare(Rows points, Rows centers) {
  if (last_ == nullptr || !last_->are(points) || !last_->serve(centers)) {
    last_.reset();  // before the next ones take memory
    last_ = std::make_unique<Points>(points, centers);
  }
  return *last_;
}

}  // namespace bipointnet::search
