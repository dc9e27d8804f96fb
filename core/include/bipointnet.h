/* BiPointNet: runs packed 1-bit point-cloud networks. One header, no dependency.
 *
 * Every function that can fail returns a status; then bipointnet_error() returns one sentence about the failure, per
 * thread. A loaded model never changes and may be used by many threads at once.
 */
#ifndef BIPOINTNET_H
#define BIPOINTNET_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

typedef struct bipointnet_model bipointnet_model;

typedef enum {
    BIPOINTNET_OK = 0,
    BIPOINTNET_ERROR_FILE = 1,   /* a file cannot be read */
    BIPOINTNET_ERROR_FORMAT = 2, /* not a packed model, or a damaged one */
    BIPOINTNET_ERROR_INPUT = 3,  /* an invalid cloud or argument */
    BIPOINTNET_ERROR_ISA = 4,    /* BIPOINTNET_ISA is unknown or not supported by this machine */
    BIPOINTNET_ERROR_MEMORY = 5
} bipointnet_status;

/* Loads a packed model from a file, or from bytes, which may be freed afterwards. On failure *model is NULL. */
bipointnet_status bipointnet_load(const char *path, bipointnet_model **model);
bipointnet_status bipointnet_load_bytes(const void *bytes, size_t size, bipointnet_model **model);
void bipointnet_free(bipointnet_model *model);

/* Properties of a model; 0 or NULL if `model` is NULL. Strings live as long as the model. */
size_t bipointnet_channels(const bipointnet_model *model); /* floats per point, xyz first */
size_t bipointnet_classes(const bipointnet_model *model);
const char *bipointnet_class_name(const bipointnet_model *model, size_t index); /* NULL after the last class */
const char *bipointnet_task(const bipointnet_model *model);                     /* "classify", "part" or "semantic" */
int bipointnet_segments(const bipointnet_model *model);   /* 0 for task classify, 1 for logits per point */
int bipointnet_normalizes(const bipointnet_model *model); /* 0 if it reads coordinates as they are, like room blocks */
const char *bipointnet_manifest(const bipointnet_model *model); /* JSON */

/* Categories that a model with task "part" needs as an input: their number, and their names by number. */
size_t bipointnet_categories(const bipointnet_model *model);
const char *bipointnet_category_name(const bipointnet_model *model, size_t index); /* NULL after the last category */

/* Writes the logits of `clouds` clouds of `points` points each, for a model with task classify.
 *   cloud    float32, cloud by cloud, point by point, `channels` floats per point. Shift large coordinates, like those
 *            of maps, near 0 before you convert them to float32; otherwise the shape is lost
 *   raw      0 normalizes each cloud as the manifest says; nonzero uses the coordinates as they are
 *   threads  1 to 1024; they share the clouds, or the points of a single cloud
 *   logits   clouds x classes floats */
bipointnet_status bipointnet_predict(const bipointnet_model *model, const float *cloud, size_t clouds, size_t points,
                                     int raw, unsigned threads, float *logits);

/* Labels every point of one cloud, for a model with task part or semantic.
 *   category  the category of the cloud by number, -1 for a model without categories
 *   labels    `points` ints: the class with the largest logit per point, among the classes of the category; the first
 *             one if several are equal
 *   logits    points x classes floats, point by point
 * One of labels and logits may be NULL. */
bipointnet_status bipointnet_segment(const bipointnet_model *model, const float *cloud, size_t points, int category,
                                     int raw, unsigned threads, int *labels, float *logits);

/* The most points of a cloud that bipointnet_predict uses; of a larger cloud it takes a fixed sample. 0: all points. */
size_t bipointnet_max_points(const bipointnet_model *model);

/* The points of one cloud that bipointnet_predict uses.
 *   kept     their number
 *   indices  NULL, or room for `points` numbers: the indices of these points, ascending */
bipointnet_status bipointnet_kept(const bipointnet_model *model, const float *cloud, size_t points, size_t *kept,
                                  unsigned *indices);

/* The number of points per cloud in training; 1024 if the file does not say; 0 if `model` is NULL. */
size_t bipointnet_points(const bipointnet_model *model);

/* What bipointnet_label needs per point besides coordinates, for a model with task semantic: their number, and their
 * names by number. red, green and blue are from 0 to 1; others, such as intensity, are as LAS and other files have them. */
size_t bipointnet_features(const bipointnet_model *model);
const char *bipointnet_feature_name(const bipointnet_model *model, size_t index); /* NULL after the last feature */

/* Labels every point of one cloud of any size, for a model with task part or semantic, as `bipointnet segment` does:
 * objects in samples of as many points as in training, rooms and scans in overlapping blocks, whose size is in the file.
 *   xyz       `points` x 3 floats; for a model with task semantic in meters, z up
 *   features  `points` x bipointnet_features() floats, point by point; NULL for a model without features
 *   category  as in bipointnet_segment
 *   threads   as in bipointnet_predict; the labels do not depend on it
 *   labels    `points` ints */
bipointnet_status bipointnet_label(const bipointnet_model *model, const float *xyz, const float *features,
                                   size_t points, int category, unsigned threads, int *labels);

/* One sentence about the last failure in this thread. */
const char *bipointnet_error(void);

/* The instruction set in use: "portable", "avx2", "avx512", "neon" or "wasm"; NULL if BIPOINTNET_ISA is invalid. */
const char *bipointnet_isa(void);

const char *bipointnet_version(void);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif

#endif
