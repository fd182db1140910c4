// Python module of the compiled engine. Its functions check their arguments, release the interpreter lock and call a kernel.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#ifdef WITH_X86_LEVELS
#include <cpuid.h>
#endif

extern "C" {
#include "kernels.h"

#define DECLARE(level) \
    extern const segments_kernels segments_kernels_1_##level, segments_kernels_2_##level, segments_kernels_3_##level, \
        segments_kernels_4_##level, segments_kernels_5_##level, segments_kernels_6_##level, segments_kernels_32_##level, \
        segments_kernels_160_##level; \
    extern const rows_kernels rows_kernels_##level;
DECLARE(portable)
#ifdef WITH_X86_LEVELS
DECLARE(avx2)
DECLARE(avx512)
#endif
void pack(int64_t n_rows, int64_t n_features, const double *rows, const double *shift, const double *scale, double *values, double *present);
}

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Doubles = nb::ndarray<double, nb::c_contig, nb::device::cpu>;
using ReadDoubles = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;
using ReadInts = nb::ndarray<const int32_t, nb::c_contig, nb::device::cpu>;
using Ints = nb::ndarray<int32_t, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<uint8_t, nb::c_contig, nb::device::cpu>;

// Kernels compiled for one instruction set.
struct Level {
    std::string name;
    std::vector<const segments_kernels *> segments;
    const rows_kernels *rows;
};

#define LEVEL_TABLE(level) \
    Level { \
        #level, {&segments_kernels_1_##level, &segments_kernels_2_##level, &segments_kernels_3_##level, &segments_kernels_4_##level, \
                 &segments_kernels_5_##level, &segments_kernels_6_##level, &segments_kernels_32_##level, &segments_kernels_160_##level}, \
            &rows_kernels_##level \
    }

#ifdef WITH_X86_LEVELS
// Whether AVX2 and AVX-512 can be used: the processor must support them and the operating system must save their registers
// (Intel 64 manual, volume 1, sections 14.3 and 15.2). __builtin_cpu_supports is not used, because clang-cl does not link the
// library in which it is defined.
struct Processor {
    bool avx2 = false, avx512 = false;
    Processor() {
        unsigned a, b, c, d;
        if (!__get_cpuid(1, &a, &b, &c, &d)) return;
        const bool osxsave = c >> 27 & 1, avx = c >> 28 & 1, fma = c >> 12 & 1;
        if (!osxsave || !avx || !fma || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return;
        unsigned saved_registers, unused;
        __asm__("xgetbv" : "=a"(saved_registers), "=d"(unused) : "c"(0));
        const bool f = b >> 16 & 1, dq = b >> 17 & 1, vl = b >> 31 & 1;
        avx2 = (b >> 5 & 1) && (saved_registers & 0x06) == 0x06;
        avx512 = avx2 && f && dq && vl && (saved_registers & 0xe6) == 0xe6;
    }
};
#endif

// Kernels for the instruction sets (levels) that this processor supports, fastest first.
const std::vector<Level> &supported_levels() {
    static const std::vector<Level> levels = [] {
        std::vector<Level> supported;
#ifdef WITH_X86_LEVELS
        const Processor processor;
        if (processor.avx512) supported.push_back(LEVEL_TABLE(avx512));
        if (processor.avx2) supported.push_back(LEVEL_TABLE(avx2));
#endif
        supported.push_back(LEVEL_TABLE(portable));
        return supported;
    }();
    return levels;
}

const Level *&current_level() {
    static const Level *level = &supported_levels().front();
    return level;
}

// Return the data of an array; raise an exception if it has fewer than `size` entries.
template <typename Array> auto checked_data(const Array &array, int64_t size, const char *name) {
    if ((int64_t)array.size() < size)
        throw std::invalid_argument(std::string(name) + " has " + std::to_string(array.size()) + " entries; " + std::to_string(size) + " are required.");
    return array.data();
}

// References to the arrays that kernels read and write, so that Python does not free them.
class Arrays {
  public:
    // Set a pointer to the data of an array with at least `size` entries, or to NULL if `object` is None.
    template <typename Array, typename Pointer> void set(const char *name, const nb::object &object, int64_t size, Pointer &pointer) {
        if (object.is_none()) {
            pointer = nullptr;
            references_.erase(name);
            return;
        }
        Array array;
        if (!nb::try_cast<Array>(object, array, false))
            throw nb::type_error((std::string(name) + " must be a C-contiguous array of the type that the kernel requires.").c_str());
        pointer = (Pointer)checked_data(array, size, name);
        references_[name] = object;
    }

  private:
    std::map<std::string, nb::object> references_;
};

std::unique_ptr<char[]> bytes(int64_t size) { return std::unique_ptr<char[]>(new char[size]); }
std::unique_ptr<double[]> doubles(int64_t size) { return std::unique_ptr<double[]>(new double[size]); }

void check_sizes(int64_t n_states, int64_t n_features, int64_t n_rows) {
    if (n_states < 1 || n_features < 1 || n_rows < 1)
        throw std::invalid_argument("n_states, n_features and n_rows must be positive.");
}

void check_gaps(const int32_t *index, int64_t count, int64_t n_gaps) {
    for (int64_t i = 0; i < count; i++)
        if (index[i] < 0 || index[i] > n_gaps)
            throw std::invalid_argument("gap_index[" + std::to_string(i) + "] = " + std::to_string(index[i]) + " is not between 0 and n_gaps.");
}

void check_blocks(int64_t n_states, int64_t n_single, int64_t n_triples) {
    const int64_t paired = n_states - n_single - 3 * n_triples;
    if (n_single < 0 || n_triples < 0 || paired < 0 || paired % 2)
        throw std::invalid_argument("n_single, n_triples and n_states - n_single - 3 n_triples must not be negative, and the last must be even.");
}

// Kalman filter and smoother of a chunk of rows, in segments that are processed in parallel; see segments.c.
class Segments {
  public:
    Segments(int64_t n_states, int64_t n_single, int64_t n_triples, int64_t n_features, int64_t n_rows, int64_t n_groups, int64_t n_gaps)
        : groups_(n_groups), level_(current_level()) {
        check_sizes(n_states, n_features, n_rows);
        if (n_groups < 1 || n_gaps < 0) throw std::invalid_argument("n_groups must be positive and n_gaps not negative.");
        check_blocks(n_states, n_single, n_triples);
        kernels_ = nullptr;
        for (const segments_kernels *kernels : level_->segments)
            if (!kernels_ && n_states <= kernels->max_states) kernels_ = kernels;
        if (!kernels_) throw std::invalid_argument("n_states must be at most 160.");
        const int64_t length = (n_rows + 4 * n_groups - 1) / (4 * n_groups);
        work = {};
        data = {};
        work.n_states = data.n_states = n_states;
        work.n_single = data.n_single = n_single;
        data.n_triples = n_triples;
        work.n_rows = data.n_rows = n_rows;
        work.length = data.length = length;
        work.n_gaps = data.n_gaps = n_gaps;
        data.n_features = n_features;
    }

    int64_t length() const { return work.length; }
    int64_t packed_size() const { return work.n_states * (work.n_states + 1) / 2; }
    int64_t size_of_groups() const { return groups_ * kernels_->size_of_group; }
    int64_t size_of_steps() const { return (work.n_gaps + 1) * kernels_->size_of_transition; }
    int64_t size_of_rows() const { return 4 * groups_ * (work.length + 1) * (work.n_states + packed_size()); }
    int64_t size_of_collapsed() const { return 4 * groups_ * work.length * (work.n_states + packed_size()); }
    int64_t size_of_table() const { return (work.n_gaps + 1) * 2 * work.n_states; }
    int64_t size_of_transition() const { return (work.n_gaps + 1) * (data.n_triples ? 3 : 2) * work.n_states; }
    // Number of off-diagonal entries inside the diagonal blocks.
    int64_t n_off_diagonal() const { return work.n_states - work.n_single + 3 * data.n_triples; }

    void tabulate() {
        require({work.transition, work.cross_precision, work.previous_precision, work.innovation_precision, work.log_det, work.transitions});
        nb::gil_scoped_release unlocked;
        kernels_->tabulate(&work);
    }
    void collapse(int64_t first, int64_t end) {
        check_groups(first, end);
        require({data.values, data.weights, data.offset, data.scaled_loadings, data.products, data.collapsed});
        nb::gil_scoped_release unlocked;
        kernels_->collapse(&data, first, end);
    }
    void eliminate(int64_t first, int64_t end) {
        check_groups(first, end);
        require_filter_arrays();
        require({work.collapsed, work.filtered_means, work.terms});
        const auto scratch = bytes(kernels_->size_of_scratch);
        nb::gil_scoped_release unlocked;
        kernels_->eliminate(&work, first, end, scratch.get());
    }
    void join(Doubles precision, Doubles information) {
        require({work.group});
        double *const matrix = checked_data(precision, work.n_states * work.n_states, "precision");
        double *const vector = checked_data(information, work.n_states, "information");
        const auto scratch = bytes(kernels_->size_of_scratch);
        nb::gil_scoped_release unlocked;
        kernels_->join(&work, groups_, matrix, vector, scratch.get());
    }
    void refilter(int64_t first, int64_t end) {
        check_groups(first, end);
        require_filter_arrays();
        require({work.collapsed, work.filtered_means, work.terms});
        const auto scratch = bytes(kernels_->size_of_scratch);
        nb::gil_scoped_release unlocked;
        kernels_->refilter(&work, first, end, scratch.get());
    }
    void likelihoods(int64_t first, int64_t end) {
        check_rows(first, end);
        require({data.values, data.weights, data.offset, data.reciprocal_noise, data.log_norm, data.loadings, data.means, data.terms});
        nb::gil_scoped_release unlocked;
        kernels_->likelihoods(&data, first, end);
    }
    void join_back(ReadDoubles mean, ReadDoubles covariance) {
        require({work.group});
        const double *const vector = checked_data(mean, work.n_states, "mean");
        const double *const matrix = checked_data(covariance, work.n_states * work.n_states, "covariance");
        const auto scratch = bytes(kernels_->size_of_scratch);
        nb::gil_scoped_release unlocked;
        kernels_->join_back(&work, groups_, vector, matrix, scratch.get());
    }
    void smooth(int64_t first, int64_t end, bool full) {
        check_groups(first, end);
        require_filter_arrays();
        require_moment_arrays(full);
        const auto scratch = bytes(kernels_->size_of_scratch);
        nb::gil_scoped_release unlocked;
        kernels_->smooth(&work, first, end, full, scratch.get());
    }
    void link(bool full) {
        require_filter_arrays();
        require_moment_arrays(full);
        const auto scratch = bytes(kernels_->size_of_scratch);
        nb::gil_scoped_release unlocked;
        kernels_->link(&work, groups_, full, scratch.get());
    }
    void add_up(int64_t first, int64_t end, Doubles observed_sums, Doubles residual_moments, Doubles residual_power, Doubles transitions) {
        check_rows(first, end);
        const int64_t k = data.n_states, width = (data.n_features + 1 + 3) / 4 * 4, sums_width = data.complete ? 4 : width, n_entries = k + n_off_diagonal();
        require({data.values, data.weights, data.offset, data.loadings, data.next_gap, data.transition});
        require({data.means, data.moments, data.lag_one});
        if (means_size_ < (data.n_rows + 1) * k || covariances_size_ < (data.n_rows + 1) * 2 * packed_size() || lag_one_size_ < data.n_rows * n_entries)
            throw std::invalid_argument("means, covariances or lag_one are too small for n_rows + 1 rows.");
        double *const to[4] = {
            checked_data(observed_sums, (2 * packed_size() + k + 1) * sums_width, "observed_sums"),
            checked_data(residual_moments, (k + 1) * width, "residual_moments"),
            checked_data(residual_power, data.n_features, "residual_power"),
            checked_data(transitions, (data.n_gaps + 1) * (3 * n_entries + 1), "transitions"),
        };
        const auto scratch = doubles(16 * (2 * width + k + 1));
        nb::gil_scoped_release unlocked;
        kernels_->add_up(&data, first, end, to[0], to[1], to[2], to[3], scratch.get());
    }

    segments_work work;
    observations data;
    Arrays arrays;
    int64_t means_size_ = 0, covariances_size_ = 0, lag_one_size_ = 0; // sizes of the arrays that set_moments received

  private:
    void check_groups(int64_t first, int64_t end) const {
        if (first < 0 || first > end || end > groups_) throw std::out_of_range("first_group and end_group must be between 0 and n_groups, in this order.");
    }
    void check_rows(int64_t first, int64_t end) const {
        if (first < 0 || first > end || end > work.n_rows) throw std::out_of_range("first_row and end_row must be between 0 and n_rows, in this order.");
    }
    static void require(std::initializer_list<const void *> pointers) {
        for (const void *pointer : pointers)
            if (!pointer) throw std::runtime_error("an array that the kernel requires has not been set.");
    }
    void require_filter_arrays() const {
        if (data.n_triples) throw std::invalid_argument("segments do not support blocks of three states; use Rows.");
        require({work.gap_index, work.transition, work.cross_precision, work.previous_precision, work.innovation_precision, work.log_det, work.group, work.filtered_rows});
    }
    void require_moment_arrays(bool full) const {
        const int64_t k = work.n_states, covariance_size = full ? k * k : 2 * packed_size(), lag_one_size = full ? k * k : k + n_off_diagonal();
        require({work.means, work.covariances, work.lag_one});
        if (means_size_ < work.n_rows * k || covariances_size_ < work.n_rows * covariance_size || lag_one_size_ < work.n_rows * lag_one_size)
            throw std::invalid_argument("means, covariances or lag_one are too small for n_rows.");
    }

    int64_t groups_;
    const Level *level_;
    const segments_kernels *kernels_;
};

// Square-root Kalman filter and smoother of a chunk of rows, row by row; see recursions.c.
class Rows {
  public:
    Rows(int64_t n_states, int64_t n_features, int64_t n_rows, int64_t n_gaps, int bandwidth) : level_(current_level()) {
        check_sizes(n_states, n_features, n_rows);
        work = {};
        work.n_states = n_states;
        work.n_features = n_features;
        work.n_rows = n_rows;
        work.n_gaps = n_gaps;
        work.bandwidth = bandwidth;
    }
    int64_t filter(Doubles mean, Doubles root) {
        require({work.values, work.weights, work.gap_index, work.transition, work.innovation, work.loadings, work.noise, work.offset});
        require({work.filtered_means, work.terms});
        if (work.slot) require({work.gain, work.root});
        double *const vector = checked_data(mean, work.n_states, "mean"), *const matrix = checked_data(root, work.n_states * work.n_states, "root");
        const auto scratch = scratch_space();
        nb::gil_scoped_release unlocked;
        return level_->rows->filter(&work, vector, matrix, scratch.get());
    }
    void filter_student(double degrees, bool by_row, Doubles mean, Doubles root) {
        require({work.values, work.weights, work.gap_index, work.transition, work.innovation, work.loadings, work.noise, work.offset});
        require({work.filtered_means, work.filtered_covariances, work.terms});
        double *const vector = checked_data(mean, work.n_states, "mean"), *const matrix = checked_data(root, work.n_states * work.n_states, "root");
        const auto scratch = scratch_space();
        nb::gil_scoped_release unlocked;
        level_->rows->filter_student(&work, degrees, by_row, vector, matrix, scratch.get());
    }
    void smooth(bool full, int64_t n_single, int64_t n_triples, Doubles mean, Doubles covariance) {
        const int64_t k = work.n_states;
        check_blocks(k, n_single, n_triples);
        require({work.gap_index, work.transition, work.filtered_means, work.slot, work.gain, work.root});
        require({work.means, work.covariances, work.lag_one});
        if (means_size_ < work.n_rows * k || covariances_size_ < work.n_rows * (full ? k * k : k * (k + 1)) || lag_one_size_ < work.n_rows * (full ? k * k : 2 * k - n_single + 3 * n_triples))
            throw std::invalid_argument("means, covariances or lag_one are too small for n_rows.");
        double *const vector = checked_data(mean, k, "mean"), *const matrix = checked_data(covariance, k * k, "covariance");
        const auto scratch = scratch_space();
        nb::gil_scoped_release unlocked;
        level_->rows->smooth(&work, full, n_single, n_triples, vector, matrix, scratch.get());
    }
    void draw(int64_t n_draws, ReadDoubles normals, Doubles after, Doubles draws) {
        const int64_t k = work.n_states;
        require({work.gap_index, work.transition, work.filtered_means, work.slot, work.gain, work.root});
        const double *const variables = checked_data(normals, work.n_rows * n_draws * k, "normals");
        double *const next_state = checked_data(after, n_draws * k, "after"), *const states = checked_data(draws, work.n_rows * n_draws * k, "draws");
        const auto scratch = scratch_space();
        nb::gil_scoped_release unlocked;
        level_->rows->draw(&work, n_draws, variables, next_state, states, scratch.get());
    }
    void leave_one_out(Doubles smoothing_errors, Doubles precisions, Doubles states) {
        const int64_t k = work.n_states, size = work.n_rows * work.n_features;
        require({work.values, work.weights, work.gap_index, work.transition, work.innovation, work.loadings, work.noise, work.offset});
        double *const e = checked_data(smoothing_errors, size, "smoothing_errors");
        double *const d = checked_data(precisions, size, "precisions");
        double *const predicted = checked_data(states, work.n_rows * (k + k * k), "states");
        const auto scratch = scratch_space();
        nb::gil_scoped_release unlocked;
        level_->rows->leave_one_out(&work, e, d, predicted, scratch.get());
    }

    rows_work work;
    Arrays arrays;
    int64_t means_size_ = 0, covariances_size_ = 0, lag_one_size_ = 0; // sizes of the arrays that set_moments received

  private:
    std::unique_ptr<double[]> scratch_space() const { return doubles(level_->rows->scratch(work.n_states, work.n_features)); }
    static void require(std::initializer_list<const void *> pointers) {
        for (const void *pointer : pointers)
            if (!pointer) throw std::runtime_error("an array that the kernel requires has not been set.");
    }
    const Level *level_;
};

// A write-only property `field` for an array of a type with at least `size` entries; the last argument is the pointer to set.
#define FIELD(kind, type, field, size, ...) \
    .def_prop_rw( \
        #field, [](const kind &) { return nb::none(); }, \
        [](kind &self, const nb::object &array) { \
            self.arrays.set<type>(#field, array, size, __VA_ARGS__); \
        }, \
        nb::arg().none())

template <typename Kind> void set_moments(Kind &self, Doubles means, Doubles covariances, Doubles lag_one) {
    self.means_size_ = (int64_t)means.size();
    self.covariances_size_ = (int64_t)covariances.size();
    self.lag_one_size_ = (int64_t)lag_one.size();
    self.work.means = means.data();
    self.work.covariances = covariances.data();
    self.work.lag_one = lag_one.data();
}

} // namespace

NB_MODULE(_probsfa_core, m) {
    m.doc() = "Kernels of the compiled engine.";
    m.attr("MOST_STATES") = 160;
    m.attr("INTERFACE") = 2; // increased by one with every change that Python callers must follow
    m.def("levels", [] {
        std::vector<std::string> names;
        for (const Level &level : supported_levels()) names.push_back(level.name);
        return names;
    }, "Names of the instruction sets with kernels that this processor supports, fastest first.");
    m.def("level", [] { return current_level()->name; }, "Name of the instruction set of the kernels in use.");
    m.def("use_level", [](const std::string &name) {
        for (const Level &level : supported_levels())
            if (level.name == name) {
                current_level() = &level;
                return;
            }
        throw std::invalid_argument("this processor or build has no kernels for the instruction set '" + name + "'; see levels().");
    }, "Use the kernels of another instruction set.", "name"_a);
    m.def("pack", [](ReadDoubles rows, ReadDoubles shift, ReadDoubles scale, Doubles values, Doubles present) {
        if (rows.ndim() != 2) throw std::invalid_argument("rows must be two-dimensional.");
        const int64_t n = (int64_t)rows.shape(0), d = (int64_t)rows.shape(1);
        const double *const shifts = checked_data(shift, d, "shift"), *const scales = checked_data(scale, d, "scale");
        double *const standardised = checked_data(values, n * d, "values"), *const mask = checked_data(present, n * d, "present");
        nb::gil_scoped_release unlocked;
        pack(n, d, rows.data(), shifts, scales, standardised, mask);
    }, "Write (rows - shift) / scale to values, with zero for missing values, and to present whether values are observed.", "rows"_a, "shift"_a, "scale"_a, "values"_a, "present"_a);

    nb::class_<Segments>(m, "Segments", "Kalman filter and smoother in information form for segments of a chunk of rows, in parallel.")
        .def(nb::init<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t>(), "n_states"_a, "n_single"_a, "n_triples"_a, "n_features"_a, "n_rows"_a, "n_groups"_a, "n_gaps"_a)
        .def_prop_ro("length", &Segments::length)
        .def_prop_ro("size_of_groups", &Segments::size_of_groups)
        .def_prop_ro("size_of_steps", &Segments::size_of_steps)
        .def_prop_ro("size_of_rows", &Segments::size_of_rows)
        .def_prop_ro("size_of_collapsed", &Segments::size_of_collapsed)
        FIELD(Segments, ReadDoubles, values, self.data.n_rows * self.data.n_features, self.data.values)
        FIELD(Segments, ReadDoubles, weights, self.data.n_rows * self.data.n_features, self.data.weights)
        FIELD(Segments, ReadDoubles, offset, self.data.n_features, self.data.offset)
        FIELD(Segments, ReadDoubles, reciprocal_noise, self.data.n_features, self.data.reciprocal_noise)
        FIELD(Segments, ReadDoubles, log_norm, self.data.n_features, self.data.log_norm)
        FIELD(Segments, ReadDoubles, loadings, self.data.n_features * self.data.n_states, self.data.loadings)
        FIELD(Segments, ReadDoubles, scaled, self.data.n_features * self.data.n_states, self.data.scaled_loadings)
        FIELD(Segments, ReadDoubles, products, self.data.n_features * self.packed_size(), self.data.products)
        FIELD(Segments, ReadDoubles, weight, self.size_of_table(), self.work.cross_precision)
        FIELD(Segments, ReadDoubles, known, self.size_of_table(), self.work.previous_precision)
        FIELD(Segments, ReadDoubles, inverse, self.size_of_table(), self.work.innovation_precision)
        FIELD(Segments, ReadDoubles, log_det, self.work.n_gaps + 1, self.work.log_det)
        FIELD(Segments, Bytes, steps, self.size_of_steps(), self.work.transitions)
        FIELD(Segments, Bytes, group, self.size_of_groups(), self.work.group)
        FIELD(Segments, Doubles, rows, self.size_of_rows(), self.work.filtered_rows)
        .def_prop_rw("transition", [](const Segments &) { return nb::none(); }, [](Segments &self, const nb::object &array) {
            self.arrays.set<ReadDoubles>("transition", array, self.size_of_transition(), self.work.transition);
            self.data.transition = self.work.transition;
        })
        .def_prop_rw("collapsed", [](const Segments &) { return nb::none(); }, [](Segments &self, const nb::object &array) {
            self.arrays.set<Doubles>("collapsed", array, self.size_of_collapsed(), self.work.collapsed);
            self.data.collapsed = (double *)self.work.collapsed;
        }, nb::arg().none())
        .def_prop_rw("terms", [](const Segments &) { return nb::none(); }, [](Segments &self, const nb::object &array) {
            self.arrays.set<Doubles>("terms", array, self.work.n_rows, self.work.terms);
            self.data.terms = self.work.terms;
        })
        .def_prop_rw("filtered_means", [](const Segments &) { return nb::none(); }, [](Segments &self, const nb::object &array) {
            self.arrays.set<Doubles>("filtered_means", array, self.work.n_rows * self.work.n_states, self.work.filtered_means);
            self.data.means = self.work.filtered_means;
        }, nb::arg().none())
        .def("set_gaps", [](Segments &self, ReadInts gap_index, ReadInts next_gap) {
            const int32_t *const index = checked_data(gap_index, self.work.n_rows, "gap_index"), *const next = checked_data(next_gap, self.work.n_rows, "next_gap");
            check_gaps(index, self.work.n_rows, self.work.n_gaps);
            check_gaps(next, self.work.n_rows, self.work.n_gaps);
            self.arrays.set<ReadInts>("gap_index", nb::cast(gap_index), self.work.n_rows, self.work.gap_index);
            self.arrays.set<ReadInts>("next_gap", nb::cast(next_gap), self.work.n_rows, self.data.next_gap);
        }, "gap_index"_a, "next_gap"_a)
        .def("set_moments", [](Segments &self, Doubles means, Doubles covariances, Doubles lag_one) {
            set_moments(self, means, covariances, lag_one);
            self.data.means = means.data();
            self.data.moments = covariances.data();
            self.data.lag_one = lag_one.data();
            double *unused = nullptr;
            self.arrays.set<Doubles>("means", nb::cast(means), 0, unused);
            self.arrays.set<Doubles>("covariances", nb::cast(covariances), 0, unused);
            self.arrays.set<Doubles>("lag_one", nb::cast(lag_one), 0, unused);
        }, "means"_a, "covariances"_a, "lag_one"_a)
        .def_prop_rw("complete", [](const Segments &self) { return self.data.complete != 0; }, [](Segments &self, bool complete) { self.data.complete = complete; })
        .def("tabulate", &Segments::tabulate)
        .def("collapse", &Segments::collapse, "first_group"_a, "end_group"_a)
        .def("eliminate", &Segments::eliminate, "first_group"_a, "end_group"_a)
        .def("join", &Segments::join, "precision"_a, "information"_a)
        .def("refilter", &Segments::refilter, "first_group"_a, "end_group"_a)
        .def("likelihoods", &Segments::likelihoods, "first_row"_a, "end_row"_a)
        .def("join_back", &Segments::join_back, "mean"_a, "covariance"_a)
        .def("smooth", &Segments::smooth, "first_group"_a, "end_group"_a, "full"_a)
        .def("link", &Segments::link, "full"_a)
        .def("add_up", &Segments::add_up, "first_row"_a, "end_row"_a, "observed_sums"_a, "residual_moments"_a, "residual_power"_a, "transitions"_a);

    nb::class_<Rows>(m, "Rows", "Square-root Kalman filter and smoother for a chunk of rows, row by row.")
        .def(nb::init<int64_t, int64_t, int64_t, int64_t, int>(), "n_states"_a, "n_features"_a, "n_rows"_a, "n_gaps"_a, "bandwidth"_a)
        FIELD(Rows, ReadDoubles, values, self.work.n_rows * self.work.n_features, self.work.values)
        FIELD(Rows, ReadDoubles, weights, self.work.n_rows * self.work.n_features, self.work.weights)
        FIELD(Rows, ReadDoubles, transition, (self.work.n_gaps + 1) * self.work.n_states * self.work.n_states, self.work.transition)
        FIELD(Rows, ReadDoubles, innovation, (self.work.n_gaps + 1) * self.work.n_states * self.work.n_states, self.work.innovation)
        FIELD(Rows, ReadDoubles, loadings, self.work.n_features * self.work.n_states, self.work.loadings)
        FIELD(Rows, ReadDoubles, noise, self.work.n_features, self.work.noise)
        FIELD(Rows, ReadDoubles, offset, self.work.n_features, self.work.offset)
        FIELD(Rows, Doubles, filtered_means, self.work.n_rows * self.work.n_states, self.work.filtered_means)
        FIELD(Rows, Doubles, filtered_covariances, self.work.n_rows * self.work.n_states * self.work.n_states, self.work.filtered_covariances)
        FIELD(Rows, Doubles, terms, self.work.n_rows, self.work.terms)
        FIELD(Rows, Ints, slot, self.work.n_rows, self.work.slot)
        FIELD(Rows, Doubles, gain, self.work.n_rows * self.work.n_states * self.work.n_states, self.work.gain)
        FIELD(Rows, Doubles, root, self.work.n_rows * self.work.n_states * self.work.n_states, self.work.root)
        .def_prop_rw("gap_index", [](const Rows &) { return nb::none(); }, [](Rows &self, const nb::object &array) {
            self.arrays.set<ReadInts>("gap_index", array, self.work.n_rows + 1, self.work.gap_index);
            check_gaps(self.work.gap_index, self.work.n_rows + 1, self.work.n_gaps);
        })
        .def("set_moments", [](Rows &self, Doubles means, Doubles covariances, Doubles lag_one) {
            set_moments(self, means, covariances, lag_one);
            double *unused = nullptr;
            self.arrays.set<Doubles>("means", nb::cast(means), 0, unused);
            self.arrays.set<Doubles>("covariances", nb::cast(covariances), 0, unused);
            self.arrays.set<Doubles>("lag_one", nb::cast(lag_one), 0, unused);
        }, "means"_a, "covariances"_a, "lag_one"_a)
        .def("filter", &Rows::filter, "mean"_a, "root"_a)
        .def("filter_student", &Rows::filter_student, "degrees"_a, "by_row"_a, "mean"_a, "root"_a)
        .def("smooth", &Rows::smooth, "full"_a, "n_single"_a, "n_triples"_a, "mean"_a, "covariance"_a)
        .def("draw", &Rows::draw, "n_draws"_a, "normals"_a, "after"_a, "draws"_a)
        .def("leave_one_out", &Rows::leave_one_out, "smoothing_errors"_a, "precisions"_a, "states"_a);
}
