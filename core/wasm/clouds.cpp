// What JavaScript needs besides bipointnet.h: the clouds in files, as C functions.
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "clouds/read.h"
#include "scan/sample.h"

namespace {

struct ReadCloud {
  bipointnet::clouds::Cloud cloud;
  std::vector<float> surface;
};

std::string last_error;

// What work() returns; NULL if it fails, and then `last_error` says why.
template <class Work>
auto guarded(const Work& work) -> decltype(work()) {
  try {
    return work();
  } catch (const bipointnet::clouds::CloudError& error) {
    last_error = error.what();
  } catch (const std::exception&) {
    last_error = "not enough memory for this file, expected a smaller one";
  }
  return nullptr;
}

}  // namespace

extern "C" {

// Reads the bytes of a file; the suffix of `name` determines the format. NULL if it fails; then cloud_error() returns
// one sentence about it.
ReadCloud* cloud_read(const char* bytes, std::size_t size, const char* name) {
  return guarded([&] {
    return new ReadCloud{bipointnet::clouds::read_cloud_bytes(std::string_view(bytes, size), name), {}};
  });
}

void cloud_free(ReadCloud* read) { delete read; }

const char* cloud_error() { return last_error.c_str(); }

std::size_t cloud_points(const ReadCloud* read) { return read->cloud.size(); }

const float* cloud_xyz(const ReadCloud* read) { return read->cloud.points.data(); }

// NULL without colors.
const float* cloud_rgb(const ReadCloud* read) {
  return read->cloud.colors.empty() ? nullptr : read->cloud.colors.data();
}

// The values of a column of the file other than coordinates and colors, one per point; NULL if it has no such column.
const double* cloud_field(const ReadCloud* read, const char* name) {
  for (const bipointnet::clouds::Column& column : read->cloud.fields) {
    if (column.name == name) return column.values.data();
  }
  return nullptr;
}

std::size_t cloud_faces(const ReadCloud* read) { return read->cloud.faces.size() / 3; }

const char* cloud_format(const ReadCloud* read) { return read->cloud.format.c_str(); }

// Points without valid coordinates, which were left out.
std::size_t cloud_dropped(const ReadCloud* read) { return read->cloud.dropped; }

// The notes for people; NULL after the last one.
const char* cloud_note(const ReadCloud* read, std::size_t index) {
  return index < read->cloud.notes.size() ? read->cloud.notes[index].c_str() : nullptr;
}

// `wanted` points of the surface of a mesh, uniform by area: `wanted` x 3 floats that live as long as the cloud. NULL if
// it fails.
const float* cloud_surface(ReadCloud* read, std::size_t wanted) {
  return guarded([&]() -> const float* {
    read->surface = bipointnet::scan::sample_surface(read->cloud.points.data(), read->cloud.faces, wanted);
    return read->surface.data();
  });
}
}
