/* Classifies a point cloud with a packed model:  classify MODEL CLOUD
 *
 * CLOUD is text, one point per line: three numbers "x y z". A float has 7 digits: if your file has map coordinates
 * (500000.25 5400000.5 ...), subtract a corner of the cloud first. README.md in this folder explains how to build it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bipointnet.h"

static void fail(const char *what, const char *why) {
    fprintf(stderr, "error: %s: %s\n", what, why);
    exit(2);
}

/* The points of a file as one array, x y z x y z ..., which the caller frees. */
static float *read_points(const char *path, size_t *points) {
    FILE *file = fopen(path, "r");
    if (file == NULL) fail(path, "cannot open the file");
    float *cloud = NULL, x, y, z;
    size_t count = 0, capacity = 0;
    char line[256], more;
    while (fgets(line, sizeof line, file) != NULL) {
        const int found = sscanf(line, "%f %f %f %c", &x, &y, &z, &more); /* 4: there is something after them */
        if (found == EOF) continue; /* an empty line */
        if (found != 3) fail(path, "found a line that is not three numbers, expected x y z");
        if (count == capacity) { /* the array is full: double it */
            capacity = capacity == 0 ? 1024 : 2 * capacity;
            cloud = realloc(cloud, capacity * 3 * sizeof *cloud);
            if (cloud == NULL) fail(path, "not enough memory");
        }
        cloud[3 * count] = x;
        cloud[3 * count + 1] = y;
        cloud[3 * count + 2] = z;
        ++count;
    }
    if (ferror(file)) fail(path, "cannot read the whole file");
    fclose(file);
    *points = count;
    return cloud;
}

int main(int argc, char **argv) {
    if (argc != 3) fail("usage", "classify MODEL CLOUD");

    /* Load the model. If a function of the library fails, bipointnet_error() explains it in one sentence. */
    bipointnet_model *model = NULL;
    if (bipointnet_load(argv[1], &model) != BIPOINTNET_OK) fail("model", bipointnet_error());
    if (strcmp(bipointnet_task(model), "classify") != 0) fail(argv[1], "labels points, expected a model that classifies");
    if (bipointnet_channels(model) != 3) fail(argv[1], "reads more channels than x y z, expected 3");

    size_t points = 0;
    float *cloud = read_points(argv[2], &points);
    if (cloud == NULL) fail(argv[2], "no points");

    /* One cloud, normalized as in training (raw is 0), on one thread. One logit per class: the larger, the likelier. */
    const size_t classes = bipointnet_classes(model);
    float *logits = malloc(classes * sizeof *logits);
    if (logits == NULL) fail(argv[2], "not enough memory");
    if (bipointnet_predict(model, cloud, 1, points, 0, 1, logits) != BIPOINTNET_OK) fail(argv[2], bipointnet_error());

    size_t best = 0;
    for (size_t i = 1; i < classes; ++i) {
        if (logits[i] > logits[best]) best = i;
    }
    /* Softmax turns logits into probabilities: exp(logit) divided by the sum over all classes. */
    double sum = 0;
    for (size_t i = 0; i < classes; ++i) sum += exp((double)logits[i] - (double)logits[best]);
    printf("%s  %.1f %%\n", bipointnet_class_name(model, best), 100 / sum);

    free(logits);
    free(cloud);
    bipointnet_free(model);
    return 0;
}
