// Training graphs of BERT-like encoders, written out as graph text: forward, masked-language-model
// loss, backward, every gradient an output. The operators and layouts are those of a captured
// BertForMaskedLM on the CPU, dropout off.
#pragma once

#include <string>

namespace magis::test {

struct TransformerSize {
  int layers = 2;
  int batch = 8;
  int sequence = 128;
  int hidden = 256;
  int heads = 4;
  int feed_forward = 1024;
  int vocabulary = 1000;
};

std::string transformer_graph_text(const TransformerSize& size);

}  // namespace magis::test
