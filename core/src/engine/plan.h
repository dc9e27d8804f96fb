// The plan of a network, made once when it is loaded: its layers as the kernels read them, and the steps of a run.
//
// An operation is of one of three types. Operations on values of the cloud, and searches, run by themselves. All others
// run in passes over the elements of a domain, block by block: all operations of a pass on one block before the next
// block, so intermediate values never leave the cache. A pass ends with pools, which lead to the parent domain, and
// with values that later steps read: stored in blocks for a later pass over the same domain, or element by element for
// searches and gathers.
//
// A pass runs at a level: after everything that it reads from other domains. Operations run as late as possible, in the
// pass that needs their result. If two passes need it, floats that are cheap are computed again and all others stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/bitsliced.h"
#include "engine/vector_ops.h"
#include "format/network.h"

namespace bipointnet {

constexpr int kCloudDomain = 0, kPointDomain = 1;
constexpr int kSkipped = -2;  // in Pass::signs
constexpr int kStored = -2;   // in Pass::places: its place is the storage of the value

// The weights of a layer after a concatenation that multiply bits of the cloud, which are the same at all elements:
// their agreements are counted once per cloud.
struct CloudColumns {
  std::vector<int> values;  // the bits of the cloud, in order
  int inputs = 0;
  std::vector<std::uint64_t> tiles;
};

struct PreparedOperation {
  std::vector<BitslicedWeights> bitsliced;  // bilinear on elements, per group; without the columns of the cloud
  std::vector<Thresholds> thresholds;       // of the layer per group, or for counting if it writes floats
  Thresholds counting;                      // bilinear_pool: for counting the agreements themselves
  std::vector<std::uint64_t> tiles;         // bilinear_pool on the distinct rows of a set: for few rows
  std::vector<float> bound;                 // dense on elements: what the sum is compared with; -bias for a sign at 0
  std::vector<float> norms;                 // dense on elements: the sum of |weight| per output
  std::vector<int> parts;                   // concat: the operands that are copied
  CloudColumns cloud;                       // bilinear right after such a concat
  VectorLayer vector;                       // layers on the cloud; a and b of layers on elements
};

struct Pass {
  int domain = 0;
  int level = 0;
  std::vector<int> operations;       // in order; first those that compute the code, if there is one
  std::vector<int> loads;            // values of the domain that earlier steps stored
  std::vector<int> stores;           // values stored in blocks
  std::vector<int> writes;           // values stored element by element
  bool logits = false;               // whether it computes the logits of points
  bool in_order = false;             // whether sums must run over the elements in order
  bool maxima = false;               // whether it ends with maxima only: groups may run in any order
  int code = -1;                     // the value that is the code of a point, or -1
  std::size_t encoders = 0;          // the number of operations that compute it
  std::size_t code_pools = 0;        // the last operations: pools that wait until all distinct codes are counted
  bool shares_codes = false;         // whether it may store values per code; all such passes have the same codes
  std::vector<int> signs;            // per operation: the sign that is computed with it, kSkipped for that sign, or -1
  std::vector<int> load_signs;       // per load: the same
  std::vector<int> counted;          // per operation: a maximum's layer of which only counts are needed, or -1
  std::vector<int> flattened;        // per mix with a sign: the operation that flattens the bits, done with it, or -1
  std::vector<bool> by_elements;     // per value: whether its readers compute it, element by element
  std::vector<int> places;           // per value: the first channel of its buffer, kStored, or -1
  bool indexed = false;              // whether it reads or writes by the numbers of elements
  std::size_t float_channels = 0;    // of all buffers for floats
  std::size_t bit_channels = 0;      // of all buffers for bits

  std::size_t before_pools() const { return operations.size() - code_pools; }
  bool keeps_elements() const { return logits || !stores.empty() || !loads.empty() || !writes.empty(); }
};

struct Step {
  enum class Type { vector, search, pass } type;
  int index;  // of the operation or of the pass
};

struct Plan {
  std::size_t lanes = 0;          // elements per block
  bool one_copy = false;          // of the weights, as in Kernels
  std::vector<PreparedOperation> operations;
  std::vector<Pass> passes;
  std::vector<Step> steps;
  bool keeps_everything = false;  // whether every value is stored element by element, for a trace
  bool uses_codes = true;         // whether equal codes are computed once, and small clouds share a block
  std::vector<bool> written;      // per value: whether it is stored element by element
  std::vector<int> stored_sign;   // per value: the sign that is stored instead of its floats, or -1
  std::vector<int> producer;      // per value: the operation that makes it
  std::vector<int> index_of;      // per domain: the indices that made it, or -1
  std::vector<bool> any_order;    // per domain: whether all its passes end with maxima, so that order does not matter
  std::size_t float_channels = 0, bit_channels = 0;  // the most of all passes
  std::size_t scratch_slices = 0;                    // the most of all layers on elements
};

// Whether `list` has `item`.
bool contains(const std::vector<int>& list, int item);

// How an operation runs.
Step::Type type_of(const Network& network, const Operation& operation);

// The domain whose elements an operation of a pass runs on.
int domain_of(const Network& network, const Operation& operation);

// Whether a pool counts the distinct rows of its input within its own pass: first the other operations run on all blocks,
// then the pool runs on the distinct rows.
bool is_code_pool(const Network& network, const Plan& plan, const Operation& operation);

// Whether an operation reduces a domain to its parent.
bool reduces(Op op);

// Whether a pass loads a value element by element, not in blocks.
bool loads_elements(const Network& network, const Plan& plan, const Pass& pass, int value);

// trace: every value is stored. plain: every point runs through every layer, for tests and measurements.
enum class PlanFor { prediction, plain, trace };

// After an operation is prepared, `prepared` is called with its index; it may call release_weights().
using WhenPrepared = std::function<void(std::size_t operation)>;
Plan make_plan(const Network& network, const Kernels& kernels, PlanFor purpose, const WhenPrepared& prepared = {});

// Frees the weights that runs of a plan do not read, because the plan has them in another form. The lines of layers are
// read until the plan is made.
void release_weights(Network& network, std::size_t operation);
void release_lines(Network& network);

// The parts of make_plan(), in order: the layers; the passes and steps; the codes of passes over the input points; the
// operations that are computed together; the values that are computed element by element; the buffers.
void prepare_operations(const Network& network, Plan& plan, const WhenPrepared& prepared);
void schedule(const Network& network, Plan& plan);
void find_codes(const Network& network, Plan& plan);
void fuse_operations(const Network& network, Plan& plan);
void find_elements(const Network& network, Plan& plan);
void place_buffers(const Network& network, Plan& plan);

}  // namespace bipointnet
