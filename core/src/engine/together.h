// Small clouds of a batch in one block.
//
// A block costs the same however few points it holds, so clouds that fill at most half of one run together. Each takes a
// span of lanes, as a group of neighbors does (layout.h), and a pool has one threshold per cloud. What follows on the
// cloud runs cloud by cloud.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/cloud.h"
#include "engine/plan.h"
#include "engine/workspace.h"
#include "format/network.h"
#include "kernels/kernels.h"

namespace bipointnet {

// Whether clouds can run together: a single pass leads from the points to the cloud, and it ends with maxima of bits.
bool runs_together(const Network& network, const Plan& plan);

// The lanes that a cloud of `points` points takes.
std::size_t span_of(std::size_t points);

// Writes the logits of normalized clouds, each split into one block of `span` lanes. Together they have at most as many
// lanes as a block of the kernels. The caller checks that the logits are finite.
void run_together(const Network& network, const Plan& plan, const Kernels& kernels, Workspace& workspace,
                  const std::vector<Cloud>& clouds, std::size_t span, int category, float* logits);

}  // namespace bipointnet
