// Operations of a pass that are computed together, without storing what is between them.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "engine/plan.h"

namespace bipointnet {
namespace {

// The only reader of a value in a pass, or -1.
int only_reader(const Network& network, const Pass& pass, int value) {
  int found = -1;
  for (const int index : pass.operations) {
    const Operation& operation = network.operations[size(index)];
    if (!contains(operation.in, value)) continue;
    if (found >= 0) return -1;
    found = index;
  }
  return found;
}

// Whether a value is an element of a set, gathered or broadcast to groups.
bool gathers(const Network& network, const Plan& plan, int value) {
  const Operation& made_by = network.operations[size(plan.producer[size(value)])];
  const bool moves = made_by.op == Op::gather || made_by.op == Op::broadcast;
  return moves && network.values[size(made_by.in[0])].domain != kCloudDomain;
}

// Whether a layer rises with the number of agreements in every output.
bool rises(const Operation& layer) {
  if (layer.op != Op::bilinear_float || layer.groups > 1 || layer.in.size() > 1) return false;
  for (std::size_t i = 0; i < layer.line.size(); i += 2) {
    if (layer.line[i] < 0) return false;
  }
  return true;
}

// Whether act(x) >= at depends on x >= at alone.
bool compares_input(Activation activation, float at) {
  if (activation == Activation::relu) return at > 0;
  return activation != Activation::hardtanh || (at > -1 && at <= 1);
}

// The smallest finite float s for which s + bias, rounded to float32, is at least `at`. The rounded sum never falls when
// s rises, so the floats are halved; they are numbered in ascending order.
float smallest_sum(float bias, float at) {
  const auto numbered = [](std::int64_t i) {
    const auto bits = static_cast<std::uint32_t>(i < 0 ? -i : i) | (i < 0 ? 0x80000000u : 0u);
    float number;
    std::memcpy(&number, &bits, sizeof number);
    return number;
  };
  std::int64_t low = -0x7f7fffff, high = 0x7f7fffff;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (numbered(middle) + bias >= at) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return numbered(low);
}

// The sums of `outer` are the largest values of a network. If a single sign reads them, it is stored instead.
void store_signs(const Network& network, Plan& plan) {
  plan.stored_sign.assign(network.values.size(), -1);
  if (plan.keeps_everything) return;
  for (const Operation& operation : network.operations) {
    const int value = operation.out[0];
    if (operation.op != Op::outer || network.values[size(value)].domain == kCloudDomain) continue;
    int readers = 0, loads = 0, sign = -1;
    for (const Operation& reader : network.operations) readers += contains(reader.in, value);
    for (const Pass& pass : plan.passes) {
      for (std::size_t i = 0; i < pass.loads.size(); ++i) {
        if (pass.loads[i] != value) continue;
        ++loads;
        sign = pass.load_signs[i];
      }
    }
    if (readers == 1 && loads == 1) plan.stored_sign[size(value)] = sign;
  }
}

}  // namespace

// A sum and the sign after it are one kernel, which does not store the sum, if nothing else reads it. The same holds for
// floats that are loaded or mixed element by element, and for differences of two such floats.
void fuse_operations(const Network& network, Plan& plan) {
  for (Pass& pass : plan.passes) {
    pass.signs.assign(pass.operations.size(), -1);
    pass.load_signs.assign(pass.loads.size(), -1);
    pass.counted.assign(pass.operations.size(), -1);
    pass.flattened.assign(pass.operations.size(), -1);
    const auto skip = [&](int index) {
      const auto place = std::find(pass.operations.begin(), pass.operations.end(), index) - pass.operations.begin();
      pass.signs[static_cast<std::size_t>(place)] = kSkipped;
    };
    // Whether this pass computes a value, and does not load what an earlier one has stored.
    const auto computed = [&](int value) { return contains(pass.operations, plan.producer[size(value)]); };
    // The operation that reads a value, if it is the only one and nothing stores the value.
    const auto reader_of = [&](int value) {
      const bool logits = pass.logits && value == network.operations.back().out.front();
      const bool kept = logits || contains(pass.stores, value) || contains(pass.writes, value);
      return kept ? -1 : only_reader(network, pass, value);
    };
    const auto sign_of = [&](int value) {
      const int reader = reader_of(value);
      return reader >= 0 && network.operations[size(reader)].op == Op::sign ? reader : -1;
    };
    for (std::size_t i = 0; i < pass.loads.size(); ++i) {
      const Value& value = network.values[size(pass.loads[i])];
      if (value.kind != Kind::floats || !loads_elements(network, plan, pass, pass.loads[i])) continue;
      pass.load_signs[i] = sign_of(pass.loads[i]);
      if (pass.load_signs[i] >= 0) skip(pass.load_signs[i]);
    }
    for (std::size_t i = 0; i < pass.operations.size(); ++i) {
      const Operation& operation = network.operations[size(pass.operations[i])];
      const bool groups = network.domains[size(pass.domain)].type == Domain::Type::groups;
      if (operation.op == Op::pool && operation.pool == Pool::max) {
        const int layer = plan.producer[size(operation.in[0])];
        const Operation& counts = network.operations[size(layer)];
        const bool suits = groups ? rises(counts) : counts.op == Op::bilinear_float && counts.groups == 1;
        if (suits && computed(operation.in[0]) && reader_of(operation.in[0]) == pass.operations[i]) {
          pass.counted[i] = layer;
          skip(layer);
        }
        continue;
      }
      const int sign = sign_of(operation.out[0]);
      if (pass.signs[i] == kSkipped || sign < 0) continue;
      const float at = network.operations[size(sign)].at;
      const bool of_cloud = operation.op == Op::transform && network.values[size(operation.in[1])].domain == kCloudDomain;
      const bool dense = operation.op == Op::dense && compares_input(operation.activation, at);
      const auto gathered = [&](int value) {
        return computed(value) && reader_of(value) >= 0 && gathers(network, plan, value);
      };
      const bool difference = operation.op == Op::subtract && gathered(operation.in[0]) && gathered(operation.in[1]) &&
                              network.values[size(operation.in[0])].channels ==
                                  network.values[size(operation.in[1])].channels;
      if (!(dense || (at == 0 && (of_cloud || difference))) && operation.op != Op::mix) continue;
      pass.signs[i] = sign;
      if (dense && at != 0) {
        std::vector<float>& bound = plan.operations[size(pass.operations[i])].bound;
        for (std::size_t m = 0; m < bound.size(); ++m) bound[m] = smallest_sum(operation.bias[m], at);
      }
      skip(sign);
      if (difference) {
        for (const int operand : operation.in) skip(plan.producer[size(operand)]);
      }
      const int reader = reader_of(network.operations[size(sign)].out[0]);
      const bool small = network.domains[size(pass.domain)].count.most <= kMostSlotSigns;
      if (operation.op == Op::mix && small && reader >= 0 && network.operations[size(reader)].op == Op::flatten) {
        pass.flattened[i] = reader;
        skip(reader);
      }
    }
  }
  store_signs(network, plan);
}

}  // namespace bipointnet
