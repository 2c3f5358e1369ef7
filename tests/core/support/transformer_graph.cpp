#include "support/transformer_graph.h"

#include <initializer_list>
#include <sstream>
#include <vector>

namespace magis::test {
namespace {

using Dims = std::vector<long>;

std::string list(const Dims& dims) {
  std::string text = "[";
  for (std::size_t i = 0; i < dims.size(); ++i) text += (i ? "," : "") + std::to_string(dims[i]);
  return text + "]";
}

std::string f32(const Dims& dims) { return "f32" + list(dims); }

std::string f32(const Dims& dims, const Dims& strides) {
  const std::string text = list(strides);
  return f32(dims) + "{" + text.substr(1, text.size() - 2) + "}";
}

std::string spaced(const Dims& dims) {
  std::string text = "[";
  for (std::size_t i = 0; i < dims.size(); ++i) text += (i ? ", " : "") + std::to_string(dims[i]);
  return text + "]";
}

struct Linear {
  std::string input;  // [T, in]
  std::string weight, bias;
  long in, out;
};
struct Norm {
  std::string input, mean, deviation, weight, bias;
};
struct Layer {
  Linear query, key, value, attention_output, expand, contract;
  std::string q, k, v, mixed, log_sum;  // attention's operands and results
  std::string activation_input;
  Norm attention_norm, output_norm;
};

class Writer {
 public:
  explicit Writer(const TransformerSize& size)
      : batch_(size.batch),
        sequence_(size.sequence),
        hidden_(size.hidden),
        heads_(size.heads),
        feed_forward_(size.feed_forward),
        vocabulary_(size.vocabulary),
        tokens_(batch_ * sequence_) {}

  std::string write(int layers) {
    head_ << "magis 1\ndevice cpu\n\n";
    body_ << "\n";
    std::vector<Layer> made(static_cast<std::size_t>(layers));
    std::string x = embed();
    for (std::size_t i = 0; i < made.size(); ++i) {
      x = forward(made[i], "layer_" + std::to_string(i), x);
    }
    std::string dx = loss_and_back(x);
    phase_ = " backward";
    for (std::size_t i = made.size(); i-- > 0;) dx = backward(made[i], dx);
    embed_back(dx);
    return head_.str() + body_.str() + "\n" + tail_.str();
  }

 private:
  // ---- single statements; each returns the name of its first result

  std::string fresh(const std::string& stem) { return "%" + stem + "_" + std::to_string(next_++); }

  std::string parameter(const std::string& name, const Dims& dims) {
    head_ << "param %" << name << " \"" << name << "\" : " << f32(dims) << "\n";
    return "%" + name;
  }
  std::string run(const std::string& stem, const std::string& call, const std::string& type) {
    const std::string name = fresh(stem);
    body_ << name << " = aten." << call << " : " << type << phase_ << "\n";
    return name;
  }
  std::string view(const std::string& stem, const std::string& call, const std::string& type) {
    const std::string name = fresh(stem);
    body_ << name << " = aten." << call << " : " << type << "\n";
    return name;
  }
  std::string flat(const std::string& x, long width) {
    return view("flat", "view(" + x + ", " + spaced({tokens_, width}) + ")", f32({tokens_, width}));
  }
  std::string unflat(const std::string& x, long width) {
    return view("wide", "view(" + x + ", " + spaced({batch_, sequence_, width}) + ")",
                f32({batch_, sequence_, width}));
  }
  std::string transposed(const std::string& x, long rows, long columns) {
    return view("t", "permute(" + x + ", [1, 0])", f32({columns, rows}, {1, columns}));
  }
  std::string add(const std::string& a, const std::string& b) {
    return run("add", "add.Tensor(" + a + ", " + b + ")", f32({batch_, sequence_, hidden_}));
  }
  void gradient(const std::string& parameter, const std::string& value) {
    tail_ << "output grad \"" << parameter.substr(1) << "\" " << value << "\n";
  }

  // ---- modules, forward

  std::string linear(Linear& l, const std::string& name, const std::string& x, long in, long out) {
    l = {flat(x, in), parameter(name + "_weight", {out, in}), parameter(name + "_bias", {out}), in,
         out};
    return unflat(
        run("linear",
            "addmm(" + l.bias + ", " + l.input + ", " + transposed(l.weight, out, in) + ")",
            f32({tokens_, out})),
        out);
  }
  std::string norm(Norm& n, const std::string& name, const std::string& x) {
    n = {x, fresh("mean"), fresh("deviation"), parameter(name + "_weight", {hidden_}),
         parameter(name + "_bias", {hidden_})};
    const std::string y = fresh("norm");
    body_ << y << ", " << n.mean << ", " << n.deviation << " = aten.native_layer_norm(" << x
          << ", [" << hidden_ << "], " << n.weight << ", " << n.bias
          << ", 1e-12) : " << f32({batch_, sequence_, hidden_}) << ", "
          << f32({batch_, sequence_, 1}) << ", " << f32({batch_, sequence_, 1}) << "\n";
    return y;
  }
  std::string embed() {
    head_ << "batch %ids \"['input_ids']\" : i64[" << batch_ << "," << sequence_ << "]\n"
          << "batch %labels \"['labels']\" : i64[" << batch_ << "," << sequence_ << "]\n"
          << "buffer %places \"position_ids\" : i64[1," << sequence_ << "]\n";
    words_ = parameter("word_embeddings", {vocabulary_, hidden_});
    positions_ = parameter("position_embeddings", {sequence_, hidden_});
    const Dims wide{batch_, sequence_, hidden_};
    const std::string words = run("embedding", "embedding(" + words_ + ", %ids, 0)", f32(wide));
    const std::string places =
        run("embedding", "embedding(" + positions_ + ", %places)", f32({1, sequence_, hidden_}));
    return norm(embedding_norm_, "embedding_norm",
                run("add", "add.Tensor(" + words + ", " + places + ")", f32(wide)));
  }
  Dims heads_shape() const { return {batch_, heads_, sequence_, hidden_ / heads_}; }
  Dims heads_strides() const { return {sequence_ * hidden_, hidden_ / heads_, hidden_, 1}; }
  std::string by_head(const std::string& x) {
    const Dims split{batch_, sequence_, heads_, hidden_ / heads_};
    const std::string parts = view("split", "view(" + x + ", " + spaced(split) + ")", f32(split));
    return view("heads", "permute(" + parts + ", [0, 2, 1, 3])",
                f32(heads_shape(), heads_strides()));
  }
  std::string joined(const std::string& x) {
    const Dims split{batch_, sequence_, heads_, hidden_ / heads_};
    const std::string parts = view("parts", "permute(" + x + ", [0, 2, 1, 3])", f32(split));
    return view("joined", "view(" + parts + ", " + spaced({batch_, sequence_, hidden_}) + ")",
                f32({batch_, sequence_, hidden_}));
  }
  std::string attention(Layer& l) {
    l.mixed = fresh("attention");
    l.log_sum = fresh("log_sum");
    body_ << l.mixed << ", " << l.log_sum << " = aten._scaled_dot_product_flash_attention_for_cpu("
          << l.q << ", " << l.k << ", " << l.v << ") : " << f32(heads_shape(), heads_strides())
          << ", " << f32({batch_, heads_, sequence_}, {sequence_ * heads_, 1, heads_}) << "\n";
    return joined(l.mixed);
  }
  std::string forward(Layer& l, const std::string& name, const std::string& x) {
    l.q = by_head(linear(l.query, name + "_query", x, hidden_, hidden_));
    l.k = by_head(linear(l.key, name + "_key", x, hidden_, hidden_));
    l.v = by_head(linear(l.value, name + "_value", x, hidden_, hidden_));
    const std::string mixed =
        linear(l.attention_output, name + "_output", attention(l), hidden_, hidden_);
    const std::string middle = norm(l.attention_norm, name + "_attention_norm", add(mixed, x));
    l.activation_input = linear(l.expand, name + "_expand", middle, hidden_, feed_forward_);
    const std::string active =
        run("gelu", "gelu(" + l.activation_input + ")", f32({batch_, sequence_, feed_forward_}));
    const std::string out = linear(l.contract, name + "_contract", active, feed_forward_, hidden_);
    return norm(l.output_norm, name + "_output_norm", add(out, middle));
  }

  // ---- modules, backward

  std::string linear_back(const Linear& l, const std::string& dy) {
    const std::string g = flat(dy, l.out);
    const std::string dx = run("dx", "mm(" + g + ", " + l.weight + ")", f32({tokens_, l.in}));
    const std::string g_t = transposed(g, tokens_, l.out);
    gradient(l.weight, run("dw", "mm(" + g_t + ", " + l.input + ")", f32({l.out, l.in})));
    const std::string db = run("db", "sum.dim_IntList(" + g + ", [0], true)", f32({1, l.out}));
    gradient(l.bias, view("db", "view(" + db + ", [" + std::to_string(l.out) + "])", f32({l.out})));
    return unflat(dx, l.in);
  }
  std::string norm_back(const Norm& n, const std::string& dy) {
    const std::string dx = fresh("dnorm");
    const std::string dw = fresh("dnorm_weight");
    const std::string db = fresh("dnorm_bias");
    body_ << dx << ", " << dw << ", " << db << " = aten.native_layer_norm_backward(" << dy << ", "
          << n.input << ", [" << hidden_ << "], " << n.mean << ", " << n.deviation << ", "
          << n.weight << ", " << n.bias
          << ", [true, true, true]) : " << f32({batch_, sequence_, hidden_}) << ", "
          << f32({hidden_}) << ", " << f32({hidden_}) << phase_ << "\n";
    gradient(n.weight, dw);
    gradient(n.bias, db);
    return dx;
  }
  std::string backward(const Layer& l, const std::string& dy) {
    const std::string d_out = norm_back(l.output_norm, dy);
    const std::string d_active = linear_back(l.contract, d_out);
    const std::string d_expand =
        run("dgelu", "gelu_backward(" + d_active + ", " + l.activation_input + ")",
            f32({batch_, sequence_, feed_forward_}));
    const std::string d_middle = add(d_out, linear_back(l.expand, d_expand));
    const std::string d_mixed = norm_back(l.attention_norm, d_middle);
    const std::string d_attention = by_head(linear_back(l.attention_output, d_mixed));
    const std::string dq = fresh("dq");
    const std::string dk = fresh("dk");
    const std::string dv = fresh("dv");
    const std::string type = f32(heads_shape(), heads_strides());
    body_ << dq << ", " << dk << ", " << dv
          << " = aten._scaled_dot_product_flash_attention_for_cpu_backward(" << d_attention << ", "
          << l.q << ", " << l.k << ", " << l.v << ", " << l.mixed << ", " << l.log_sum
          << ", 0.0, false) : " << type << ", " << type << ", " << type << phase_ << "\n";
    const std::string dx_v = add(d_mixed, linear_back(l.value, joined(dv)));
    const std::string dx_k = add(dx_v, linear_back(l.key, joined(dk)));
    return add(dx_k, linear_back(l.query, joined(dq)));
  }
  std::string loss_and_back(const std::string& x) {
    Linear transform, decoder;
    Norm head_norm;
    const std::string hidden = linear(transform, "head_transform", x, hidden_, hidden_);
    const std::string active =
        run("gelu", "gelu(" + hidden + ")", f32({batch_, sequence_, hidden_}));
    const std::string normed = norm(head_norm, "head_norm", active);
    decoder = {flat(normed, hidden_), words_, parameter("decoder_bias", {vocabulary_}), hidden_,
               vocabulary_};
    const Dims wide{tokens_, vocabulary_};
    const std::string scores = run("scores",
                                   "addmm(" + decoder.bias + ", " + decoder.input + ", " +
                                       transposed(words_, vocabulary_, hidden_) + ")",
                                   f32(wide));
    const std::string chances =
        run("log_softmax", "_log_softmax(" + scores + ", 1, false)", f32(wide));
    const std::string labels = fresh("labels");
    body_ << labels << " = aten.view(%labels, [" << tokens_ << "]) : i64[" << tokens_ << "]\n";
    const std::string loss = fresh("loss");
    const std::string total = fresh("total");
    body_ << loss << ", " << total << " = aten.nll_loss_forward(" << chances << ", " << labels
          << ", none, 1, -100) : f32[], f32[]\n";
    tail_ << "output loss \"\" " << loss << "\n";
    phase_ = " backward";
    const std::string one = run("one", "full([], 1, dtype=torch.float32)", "f32[]");
    const std::string d_chances = run("dnll",
                                      "nll_loss_backward(" + one + ", " + chances + ", " + labels +
                                          ", none, 1, -100, " + total + ")",
                                      f32(wide));
    const std::string d_scores =
        run("dsoftmax",
            "_log_softmax_backward_data(" + d_chances + ", " + chances + ", 1, torch.float32)",
            f32(wide));
    // The decoder's weight is the word embedding's: its gradient is added to that one's at the end.
    const std::string d_normed =
        unflat(run("dx", "mm(" + d_scores + ", " + words_ + ")", f32({tokens_, hidden_})), hidden_);
    d_decoder_ =
        run("dw", "mm(" + transposed(d_scores, tokens_, vocabulary_) + ", " + decoder.input + ")",
            f32({vocabulary_, hidden_}));
    const std::string db =
        run("db", "sum.dim_IntList(" + d_scores + ", [0], true)", f32({1, vocabulary_}));
    gradient(decoder.bias, view("db", "view(" + db + ", [" + std::to_string(vocabulary_) + "])",
                                f32({vocabulary_})));
    const std::string d_active = norm_back(head_norm, d_normed);
    return linear_back(transform, run("dgelu", "gelu_backward(" + d_active + ", " + hidden + ")",
                                      f32({batch_, sequence_, hidden_})));
  }
  void embed_back(const std::string& dy) {
    const std::string dx = norm_back(embedding_norm_, dy);
    const std::string summed =
        run("dplaces", "sum.dim_IntList(" + dx + ", [0], true)", f32({1, sequence_, hidden_}));
    gradient(positions_, run("dposition",
                             "embedding_dense_backward(" + summed + ", %places, " +
                                 std::to_string(sequence_) + ", -1, false)",
                             f32({sequence_, hidden_})));
    const std::string dw = run(
        "dword",
        "embedding_dense_backward(" + dx + ", %ids, " + std::to_string(vocabulary_) + ", 0, false)",
        f32({vocabulary_, hidden_}));
    gradient(words_, run("dword", "add.Tensor(" + d_decoder_ + ", " + dw + ")",
                         f32({vocabulary_, hidden_})));
  }

  const long batch_, sequence_, hidden_, heads_, feed_forward_, vocabulary_, tokens_;
  std::ostringstream head_, body_, tail_;
  std::string phase_;
  std::string words_, positions_, d_decoder_;
  Norm embedding_norm_;
  int next_ = 0;
};

}  // namespace

std::string transformer_graph_text(const TransformerSize& size) {
  return Writer(size).write(size.layers);
}

}  // namespace magis::test
