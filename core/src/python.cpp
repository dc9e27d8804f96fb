// The Python module. The only file that uses nanobind.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string_view>

#include "clouds/finish.h"
#include "clouds/read.h"
#include "engine/delta.h"
#include "engine/model.h"
#include "engine/plan.h"
#include "format/bits.h"
#include "format/cost.h"
#include "format/file.h"
#include "format/operations.h"
#include "format/program.h"
#include "kernels/dispatch.h"

namespace nb = nanobind;
using bipointnet::Model;

namespace {

using Matrix = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Batch = nb::ndarray<const float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

template <class T>
nb::object array(std::unique_ptr<T[]> data, std::initializer_list<std::size_t> shape) {
  T* pointer = data.release();
  nb::capsule owner(pointer, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T>(pointer, shape, owner));
}

nb::object pack_signs(Matrix values) {
  const std::size_t rows = values.shape(0);
  const std::size_t columns = values.shape(1);
  const std::size_t width = bipointnet::words_for(columns);
  auto words = std::make_unique<std::uint64_t[]>(rows * width);
  {
    nb::gil_scoped_release unlocked;
    bipointnet::pack_signs(values.data(), rows, columns, words.get());
  }
  return array(std::move(words), {rows, width});
}

void require_channels(const Model& model, std::size_t channels) {
  const std::size_t expected = static_cast<std::size_t>(model.network().channels);
  if (channels != expected) {
    throw bipointnet::InputError(std::to_string(channels) + " channels per point, expected " +
                                 std::to_string(expected));
  }
}

nb::object predict(const Model& model, Batch points, bool raw, unsigned threads, int category) {
  require_channels(model, points.shape(2));
  const std::size_t clouds = points.shape(0), count = points.shape(1), classes = model.network().classes.size();
  auto logits = std::make_unique<float[]>(model.logits(clouds, count));
  {
    nb::gil_scoped_release unlocked;
    model.predict(points.data(), clouds, count, raw, threads, category, logits.get());
  }
  if (model.network().per_point()) return array(std::move(logits), {clouds, count, classes});
  return array(std::move(logits), {clouds, classes});
}

template <class T>
nb::object array_of(std::vector<T> values, std::initializer_list<std::size_t> shape) {
  auto* owned = new std::vector<T>(std::move(values));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T>(owned->data(), shape, owner));
}

nb::object kept_points(Matrix points, std::size_t most) {
  bipointnet::KeptPoints kept;
  {
    nb::gil_scoped_release unlocked;
    kept = bipointnet::kept_points(points.data(), points.shape(0), points.shape(1), most);
  }
  const std::size_t count = kept.index.size();
  return count == 0 ? nb::none() : array_of(std::move(kept.index), {count});
}

// The shape of a value: without an axis for the cloud, with one for a set and two for groups.
std::vector<std::size_t> shape_of(const bipointnet::Network& network, const bipointnet::Value& value,
                                  const std::vector<std::size_t>& sizes) {
  const bipointnet::Domain& domain = network.domains[bipointnet::size(value.domain)];
  const std::size_t elements = sizes[bipointnet::size(value.domain)];
  std::vector<std::size_t> shape;
  if (domain.type == bipointnet::Domain::Type::set) shape = {elements};
  if (domain.type == bipointnet::Domain::Type::groups) {
    const std::size_t centers = sizes[bipointnet::size(domain.parent)];
    if (network.domains[bipointnet::size(domain.parent)].type == bipointnet::Domain::Type::set) shape = {centers};
    shape.push_back(elements / centers);
  }
  if (value.kind != bipointnet::Kind::indices) shape.push_back(bipointnet::size(value.channels));
  return shape;
}

template <class To, class From>
nb::object converted_array(const std::vector<From>& values, const std::vector<std::size_t>& shape) {
  auto* owned = new std::vector<To>(values.begin(), values.end());
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<To>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, To>(owned->data(), shape.size(), shape.data(), owner));
}

nb::dict trace(const Model& model, Matrix points, bool raw, int category) {
  require_channels(model, points.shape(1));
  const bipointnet::Network& network = model.network();
  std::vector<bipointnet::Traced> traced;
  {
    nb::gil_scoped_release unlocked;
    traced = model.trace(points.data(), points.shape(0), raw, category);
  }
  const std::vector<std::size_t> sizes = network.sizes(points.shape(0));
  nb::dict values;
  for (std::size_t v = 0; v < traced.size(); ++v) {
    const bipointnet::Value& value = network.values[v];
    const std::vector<std::size_t> shape = shape_of(network, value, sizes);
    values[value.name.c_str()] = value.kind == bipointnet::Kind::floats ? converted_array<float>(traced[v].numbers, shape)
                                 : value.kind == bipointnet::Kind::bits
                                     ? converted_array<std::uint8_t>(traced[v].numbers, shape)
                                     : converted_array<std::int64_t>(traced[v].indices, shape);
  }
  return values;
}

nb::list names_of(const bipointnet::Network& network, const std::vector<int>& values) {
  nb::list names;
  for (const int value : values) names.append(network.values[bipointnet::size(value)].name);
  return names;
}

// "cloud", "points", "set 2", "groups 3".
std::string domain_name(const bipointnet::Network& network, int domain) {
  switch (network.domains[bipointnet::size(domain)].type) {
    case bipointnet::Domain::Type::cloud: return "cloud";
    case bipointnet::Domain::Type::set: return domain == 1 ? "points" : "set " + std::to_string(domain);
    default: return "groups " + std::to_string(domain);
  }
}

// The operations of a model, with their cost for a cloud of `points` points. The domain is that of the elements that an
// operation runs on: a pool's is the one that it reduces.
nb::list program(const Model& model, std::size_t points) {
  const bipointnet::Network& network = model.network();
  const std::vector<std::size_t> sizes = network.sizes(points);
  nb::list list;
  for (const bipointnet::Operation& operation : network.operations) {
    const int domain = bipointnet::domain_of(network, operation);
    const bipointnet::Cost cost = bipointnet::cost(network, operation, sizes);
    nb::dict dict;
    dict["op"] = bipointnet::rule_of(operation.op).name;
    dict["in"] = names_of(network, operation.in);
    dict["out"] = names_of(network, operation.out);
    dict["inputs"] = operation.inputs;
    dict["outputs"] = operation.outputs;
    dict["domain"] = domain_name(network, domain);
    dict["elements"] = sizes[bipointnet::size(domain)];
    dict["float_multiply_adds"] = cost.float_multiply_adds;
    dict["bit_multiply_adds"] = cost.bit_multiply_adds;
    dict["distances"] = cost.distances;
    list.append(dict);
  }
  return list;
}

nb::list operations() {
  nb::list list;
  for (const bipointnet::OperationText& row : bipointnet::operation_texts()) {
    nb::dict dict;
    dict["op"] = row.op;
    dict["operands"] = row.operands;
    dict["results"] = row.results;
    dict["fields"] = row.fields;
    dict["tensors"] = row.tensors;
    dict["cost"] = row.cost;
    list.append(dict);
  }
  return list;
}

// Names of columns in a file may be any bytes.
nb::object text_of(const std::string& text) {
  return nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

nb::list texts_of(const std::vector<std::string>& texts) {
  nb::list list;
  for (const std::string& text : texts) list.append(text_of(text));
  return list;
}

// A dict, as bipointnet.data.clouds expects it; arrays own their memory.
nb::dict cloud_dict(bipointnet::clouds::Cloud cloud) {
  nb::dict dict;
  const std::size_t count = cloud.size();
  dict["format"] = text_of(cloud.format);
  dict["points"] = array_of(std::move(cloud.points), {count, 3});
  dict["origin"] = nb::make_tuple(cloud.origin[0], cloud.origin[1], cloud.origin[2]);
  dict["colors"] = cloud.colors.empty() ? nb::none() : array_of(std::move(cloud.colors), {count, 3});
  dict["color_scale"] = cloud.color_scale;
  const std::size_t faces = cloud.faces.size() / 3;
  dict["faces"] = faces == 0 ? nb::none() : array_of(std::move(cloud.faces), {faces, 3});
  nb::list fields;
  for (bipointnet::clouds::Column& column : cloud.fields) {
    fields.append(nb::make_tuple(text_of(column.name), array_of(std::move(column.values), {count})));
  }
  dict["fields"] = fields;
  dict["columns"] = texts_of(cloud.columns);
  dict["dropped"] = cloud.dropped;
  dict["kept"] = cloud.kept.empty() ? nb::none() : array_of(std::move(cloud.kept), {count});
  dict["notes"] = texts_of(cloud.notes);
  return dict;
}

nb::dict read_cloud(nb::bytes data, const std::string& name, const std::vector<std::string>& columns, bool strict) {
  bipointnet::clouds::Cloud cloud;
  const std::string_view bytes(static_cast<const char*>(data.data()), data.size());
  {
    nb::gil_scoped_release unlocked;
    cloud = bipointnet::clouds::read_cloud_bytes(bytes, name, {columns, strict});
  }
  return cloud_dict(std::move(cloud));
}

using Doubles = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Faces = nb::ndarray<const std::int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// For formats that other libraries parse: columns (C, N) and their names.
nb::dict finish_cloud(const std::string& format, const std::vector<std::string>& names,
                      const std::vector<unsigned>& bits, Doubles columns, std::optional<Faces> faces, bool strict) {
  if (columns.shape(0) != names.size() || bits.size() != names.size()) throw nb::value_error("one name per column");
  bipointnet::clouds::Parsed parsed;
  parsed.format = format;
  const std::size_t count = columns.shape(1);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const double* values = columns.data() + i * count;
    parsed.columns.push_back({names[i], bits[i], {values, values + count}});
  }
  if (faces) parsed.faces.assign(faces->data(), faces->data() + faces->size());
  bipointnet::clouds::Cloud cloud;
  {
    nb::gil_scoped_release unlocked;
    cloud = bipointnet::clouds::finish(std::move(parsed), strict);
  }
  return cloud_dict(std::move(cloud));
}

void load(Model* self, nb::bytes data, const std::optional<std::string>& isa, bool plain) {
  new (self) Model(bipointnet::parse(static_cast<const std::uint8_t*>(data.data()), data.size()),
                   bipointnet::find_kernels(isa.value_or("")), plain);
}

nb::bytes read_packed_file(const std::string& path) {
  std::vector<std::uint8_t> bytes;
  {
    nb::gil_scoped_release unlocked;
    bytes = bipointnet::read_packed_file(path);
  }
  return nb::bytes(bytes.data(), bytes.size());
}

}  // namespace

NB_MODULE(_core, module) {
  module.doc() = "The compiled core of bipointnet.";
  nb::exception<bipointnet::FormatError>(module, "FormatError", PyExc_ValueError);
  nb::exception<bipointnet::FileError>(module, "FileError", PyExc_OSError);
  nb::exception<bipointnet::InputError>(module, "InputError", PyExc_ValueError);
  nb::exception<bipointnet::IsaError>(module, "IsaError", PyExc_ValueError);
  nb::exception<bipointnet::clouds::CloudError>(module, "CloudError", PyExc_ValueError);
  module.def("read_cloud", &read_cloud, nb::arg("data"), nb::arg("name"),
             nb::arg("columns") = std::vector<std::string>(), nb::arg("strict") = false,
             "The cloud or mesh in the bytes of a file; its name gives the format. See core/src/clouds/cloud.h.");
  module.def("finish_cloud", &finish_cloud, nb::arg("format"), nb::arg("names"), nb::arg("bits"), nb::arg("columns"),
             nb::arg("faces").none(), nb::arg("strict"),
             "The cloud in the columns (C, N) of a file that another library has parsed.");
  module.def("cloud_suffixes", &bipointnet::clouds::cloud_suffixes, "The suffixes that read_cloud() accepts.");
  module.def("pack_signs", &pack_signs, nb::arg("values"),
             "Pack the signs of a (rows, columns) float32 matrix into (rows, ceil(columns / 64)) uint64 words.\n\n"
             "Bit c % 64 of word c // 64 is 1 where column c is >= 0 (-0.0 too), 0 where it is negative or NaN; "
             "pad bits are 0.");
  module.def("delta", &bipointnet::delta, nb::arg("n"), "Phi^-1(2^(-1/n)), the shift of a max pool over n points.");
  module.def("operations", &operations, "The table of all operations of the format.");
  module.def(
      "isas",
      [] {
        std::vector<std::string> names;
        for (const bipointnet::Kernels* kernels : bipointnet::available_kernels()) names.emplace_back(kernels->name);
        return names;
      },
      "The instruction sets that run on this machine, best first.");
  module.def(
      "default_isa", [] { return std::string(bipointnet::find_kernels().name); },
      "The default instruction set: BIPOINTNET_ISA, or the best one.");
  module.def("kept_points", &kept_points, nb::arg("points"), nb::arg("most"),
             "The points of a cloud (N, C) that predictions use: all but copies, or `most` of them (0: no limit). Their\n"
             "indices (M,) uint32, ascending; None if all are used.");
  module.def(
      "read_packed_file", [](nb::bytes path) { return read_packed_file({path.c_str(), path.size()}); }, nb::arg("path"),
      "The bytes of a packed model, given its path as bytes (`os.fsencode`). The header is checked first: after a wrong\n"
      "one nothing else is read.");
  nb::class_<Model>(module, "Model", "A packed model that is ready to run.")
      .def("__init__", &load, nb::arg("data"), nb::arg("isa") = nb::none(), nb::arg("plain") = false)
      .def_prop_ro("manifest", [](const Model& model) { return model.network().manifest; })
      .def_prop_ro("isa", [](const Model& model) { return std::string(model.kernels().name); })
      .def_prop_ro("channels", [](const Model& model) { return model.network().channels; })
      .def_prop_ro("classes", [](const Model& model) { return model.network().classes; })
      .def_prop_ro("categories", [](const Model& model) { return model.network().categories; })
      .def_prop_ro("parts", [](const Model& model) { return model.network().parts; })
      .def_prop_ro("task", [](const Model& model) { return std::string(name_of(model.network().task)); })
      .def_prop_ro("segments", [](const Model& model) { return model.network().per_point(); })
      .def("predict", &predict, nb::arg("points"), nb::arg("raw"), nb::arg("threads"), nb::arg("category") = -1,
           "Logits (B, classes) of clouds (B, N, C), or (B, N, classes) if the model has logits per point.\n\n"
           "category: the category of all clouds, or -1 if the model has no categories.")
      .def("trace", &trace, nb::arg("points"), nb::arg("raw"), nb::arg("category") = -1,
           "All values for a cloud (N, C), by name: (K,) of the cloud, (n, K) of a set, (m, k, K) of groups; indices have no\n"
           "last axis. Bits are uint8, floats float32, indices int64.")
      .def("program", &program, nb::arg("points"),
           "The operations with operands, results and cost, for clouds of `points` points.");
}
