// Which passes over the input points can run on distinct codes.
//
// The code of a point is its first bits, at most 256. Values that depend on the points only through the code are the
// same at all points with this code, and a maximum does not depend on how often a value occurs. So a pass that ends
// with maxima of such values runs once per distinct code. Passes that store values, or have logits per point, do so per
// code, if all of them have the same code.
#include <algorithm>

#include "engine/plan.h"

namespace bipointnet {
namespace {

constexpr int kNone = -1, kConstant = -2;
constexpr int kMaxCodeBits = 256;

class CodeFinder {
 public:
  CodeFinder(const Network& network, Plan& plan) : network_(network), plan_(plan) {
    for (const Operation& operation : network.operations) {
      for (const int value : operation.out) codes_.resize(std::max(codes_.size(), size(value) + 1), kNone);
    }
    for (const Operation& operation : network.operations) find_code(operation);
  }

  void run() {
    std::vector<Pass*> keepers;
    bool alike = true;
    for (Pass& pass : plan_.passes) {
      if (pass.domain != kPointDomain) continue;
      pass.code = code_of(pass);
      if (!pass.keeps_elements()) continue;
      keepers.push_back(&pass);
      alike &= pass.code >= 0 && pass.code == keepers.front()->code;
    }
    for (Pass* pass : keepers) {
      if (!alike) pass->code = kNone;
    }
    for (Pass& pass : plan_.passes) {
      if (pass.code < 0) continue;
      pass.shares_codes = !keepers.empty() && alike && pass.code == keepers.front()->code;
      put_encoders_first(pass);
    }
  }

 private:
  // The code on which the results of an operation depend.
  void find_code(const Operation& operation) {
    const int result = operation.out[0];
    const Value& value = network_.values[size(result)];
    const bool pointwise = type_of(network_, operation) == Step::Type::pass &&
                           domain_of(network_, operation) == kPointDomain && operation.op != Op::points;
    if (!pointwise) return;
    int code = kConstant;
    for (std::size_t i = 0; i < operation.in.size(); ++i) {
      const int from = operation.in[i];
      if (network_.values[size(from)].domain != kPointDomain || operation.op == Op::broadcast) continue;
      const int other = codes_[size(from)];
      code = other == kConstant || other == code ? code : code == kConstant ? other : kNone;
      if (other == kNone) code = kNone;
    }
    if (code == kNone && operation.op == Op::sign && value.channels <= kMaxCodeBits) code = result;
    for (const int out : operation.out) {
      if (network_.values[size(out)].domain == kPointDomain) codes_[size(out)] = code;
    }
  }

  // The code on which all results of a pass depend, if it may run on codes.
  int code_of(const Pass& pass) const {
    if (plan_.keeps_everything || !pass.writes.empty()) return kNone;
    std::vector<int> ends = pass.stores;
    ends.insert(ends.end(), pass.loads.begin(), pass.loads.end());
    if (pass.logits) ends.push_back(network_.operations.back().out.front());
    for (const int index : pass.operations) {
      const Operation& operation = network_.operations[size(index)];
      if (!reduces(operation.op)) continue;
      const bool pool = operation.op == Op::pool || operation.op == Op::bilinear_pool;
      if (!pool || operation.pool != Pool::max) return kNone;
      if (operation.over == Over::distinct && !is_code_pool(network_, plan_, operation)) return kNone;
      ends.push_back(operation.in[0]);
    }
    const int code = codes_[size(ends.front())];
    const auto same = [&](int value) { return codes_[size(value)] == code; };
    return code >= 0 && std::all_of(ends.begin(), ends.end(), same) ? code : kNone;
  }

  void put_encoders_first(Pass& pass) const {
    std::vector<bool> needed(network_.values.size(), false);
    needed[size(pass.code)] = true;
    std::vector<int> encoders, others;
    for (auto index = pass.operations.rbegin(); index != pass.operations.rend(); ++index) {
      const Operation& operation = network_.operations[size(*index)];
      const bool encodes = needed[size(operation.out[0])];
      (encodes ? encoders : others).push_back(*index);
      for (const int value : operation.in) {
        if (encodes) needed[size(value)] = true;
      }
    }
    std::reverse(encoders.begin(), encoders.end());
    std::reverse(others.begin(), others.end());
    pass.encoders = encoders.size();
    pass.operations = std::move(encoders);
    pass.operations.insert(pass.operations.end(), others.begin(), others.end());
  }

  const Network& network_;
  Plan& plan_;
  std::vector<int> codes_;  // per value: the code on which it depends, kNone, or kConstant
};

}  // namespace

void find_codes(const Network& network, Plan& plan) { CodeFinder(network, plan).run(); }

}  // namespace bipointnet
