// Values that are computed element by element.
//
// `outer` and `mix` multiply whole elements, and what other domains gather is stored element by element. A value that
// only they read needs no rows: the reader puts its elements together when it needs them. Gathered elements are copied
// from where they are stored. Of a layer that counts agreements only the counts are transposed, which are bytes.
#include "engine/plan.h"

namespace bipointnet {
namespace {

class Elements {
 public:
  Elements(const Network& network, const Plan& plan, Pass& pass) : network_(network), plan_(plan), pass_(pass) {}

  // Readers come after what they read, so backwards.
  void run() {
    pass_.by_elements.assign(network_.values.size(), false);
    for (std::size_t i = pass_.operations.size(); i-- > 0;) {
      const Operation& operation = network_.operations[size(pass_.operations[i])];
      const int value = operation.out[0];
      if (pass_.signs[i] == -1 && can_be(operation) && read_so(value)) pass_.by_elements[size(value)] = true;
    }
  }

 private:
  int channels(int value) const { return network_.values[size(value)].channels; }

  bool can_be(const Operation& operation) const {
    if (network_.values[size(operation.out[0])].kind != Kind::floats) return false;
    switch (operation.op) {
      case Op::gather:
      case Op::broadcast: return network_.values[size(operation.in[0])].domain != kCloudDomain;
      case Op::concat: return true;
      case Op::multiply: return channels(operation.in[0]) != channels(operation.in[1]);
      case Op::bilinear_float: return operation.groups == 1 && operation.in.size() == 1;
      default: return false;
    }
  }

  bool read_so(int value) const {
    if (contains(pass_.stores, value)) return false;
    if (pass_.logits && value == network_.operations.back().out[0]) return false;
    bool read = contains(pass_.writes, value);
    for (const int index : pass_.operations) {
      const Operation& reader = network_.operations[size(index)];
      for (std::size_t i = 0; i < reader.in.size(); ++i) {
        if (reader.in[i] != value) continue;
        if (!reads_elements(reader, i)) return false;
        read = true;
      }
    }
    return read;
  }

  bool reads_elements(const Operation& reader, std::size_t operand) const {
    const bool later = pass_.by_elements[size(reader.out[0])];
    switch (reader.op) {
      case Op::outer: return operand == 1;
      case Op::mix: return operand == 1 && network_.domains[size(pass_.domain)].count.most <= plan_.lanes;
      case Op::concat: return later;
      case Op::multiply: return later && channels(reader.in[operand]) > 1;
      default: return false;
    }
  }

  const Network& network_;
  const Plan& plan_;
  Pass& pass_;
};

}  // namespace

void find_elements(const Network& network, Plan& plan) {
  for (Pass& pass : plan.passes) Elements(network, plan, pass).run();
}

}  // namespace bipointnet
