// The silero-vad network (16 kHz): for each frame of 512 samples the probability
// that somebody speaks. A short-time Fourier transform as a convolution, four
// convolutions, an LSTM that goes from frame to frame, and a convolution of one
// number. A packed type in place of a weight's tensor is all that it takes to
// run it packed:
//
//   !conv1 = !nabla.implicit<128x129x3xf32, #nabla.nf4<block = 64>>
//
// Arguments that have a dot in their names are tensors of the model's file:
//
//   nabla-run silero_vad.mlir --input frames=frames.npy --output speech.npy \
//     --bind stft_conv.weight=silero_vad_16k.safetensors:stft_conv.weight ...

!stft = tensor<258x1x256xf32>
!conv1 = tensor<128x129x3xf32>
!conv2 = tensor<64x128x3xf32>
!conv3 = tensor<64x64x3xf32>
!conv4 = tensor<128x64x3xf32>
!input = tensor<512x128xf32>
!hidden = tensor<512x128xf32>
!final = tensor<1x128x1xf32>

!frame = tensor<1x512xf32>
!context = tensor<1x64xf32>
!state = tensor<1x128xf32>
!gates = tensor<1x512xf32>

func.func @speech(
    %frames: tensor<?x1x512xf32> {nabla.name = "frames"},
    %stft: !stft {nabla.name = "stft_conv.weight"},
    %w1: !conv1 {nabla.name = "conv1.weight"},
    %b1: tensor<128xf32> {nabla.name = "conv1.bias"},
    %w2: !conv2 {nabla.name = "conv2.weight"},
    %b2: tensor<64xf32> {nabla.name = "conv2.bias"},
    %w3: !conv3 {nabla.name = "conv3.weight"},
    %b3: tensor<64xf32> {nabla.name = "conv3.bias"},
    %w4: !conv4 {nabla.name = "conv4.weight"},
    %b4: tensor<128xf32> {nabla.name = "conv4.bias"},
    %wi: !input {nabla.name = "lstm_cell.weight_ih"},
    %bi: tensor<512xf32> {nabla.name = "lstm_cell.bias_ih"},
    %wh: !hidden {nabla.name = "lstm_cell.weight_hh"},
    %bh: tensor<512xf32> {nabla.name = "lstm_cell.bias_hh"},
    %wf: !final {nabla.name = "final_conv.weight"},
    %bf: tensor<1xf32> {nabla.name = "final_conv.bias"})
    -> (tensor<?x1x1x1xf32>, !state, !state) {
  // the samples before the first, and an LSTM that has heard nothing
  %silence = nabla.constant dense<0.0> : !context
  %zero = nabla.constant dense<0.0> : !state
  // what does not depend on the frame
  %c1 = nabla.broadcast_in_dim %b1 dims = [1] : tensor<128xf32> -> tensor<1x128x4xf32>
  %c2 = nabla.broadcast_in_dim %b2 dims = [1] : tensor<64xf32> -> tensor<1x64x2xf32>
  %c3 = nabla.broadcast_in_dim %b3 dims = [1] : tensor<64xf32> -> tensor<1x64x1xf32>
  %c4 = nabla.broadcast_in_dim %b4 dims = [1] : tensor<128xf32> -> tensor<1x128x1xf32>
  %cf = nabla.broadcast_in_dim %bf dims = [1] : tensor<1xf32> -> tensor<1x1x1xf32>
  %bias = nabla.add %bi, %bh : tensor<512xf32>, tensor<512xf32>
  %cg = nabla.broadcast_in_dim %bias dims = [1] : tensor<512xf32> -> !gates

  %out:4 = nabla.scan
      init(%silence, %zero, %zero : !context, !state, !state)
      over(%frames : tensor<?x1x512xf32>)
      -> !context, !state, !state, tensor<?x1x1x1xf32> {
  ^bb0(%before: !context, %h: !state, %c: !state, %frame: !frame):
    // 64 samples of the frame before, the frame, and its end turned round
    %next = nabla.slice %frame starts = [0, 448] limits = [1, 512] : !frame
    %end = nabla.slice %frame starts = [0, 447] limits = [1, 511] : !frame
    %mirror = nabla.flip %end dims = [1] : !context
    %padded = nabla.concatenate %before, %frame, %mirror dim = 1 : !context, !frame, !context
    %x = nabla.reshape %padded : tensor<1x640xf32> -> tensor<1x1x640xf32>

    // magnitudes of 129 frequencies in 4 windows
    %f = nabla.conv_general %x, %stft strides = [128] : tensor<1x1x640xf32>, !stft
    %re, %im = nabla.split %f dim = 1 sizes = [129, 129] : tensor<1x258x4xf32>
    %re2 = nabla.mul %re, %re : tensor<1x129x4xf32>, tensor<1x129x4xf32>
    %im2 = nabla.mul %im, %im : tensor<1x129x4xf32>, tensor<1x129x4xf32>
    %power = nabla.add %re2, %im2 : tensor<1x129x4xf32>, tensor<1x129x4xf32>
    %x0 = nabla.sqrt %power : tensor<1x129x4xf32>

    %y1 = nabla.conv_general %x0, %w1 low = [1] high = [1] : tensor<1x129x4xf32>, !conv1
    %z1 = nabla.add %y1, %c1 : tensor<1x128x4xf32>, tensor<1x128x4xf32>
    %x1 = nabla.relu %z1 : tensor<1x128x4xf32>
    %y2 = nabla.conv_general %x1, %w2 strides = [2] low = [1] high = [1] : tensor<1x128x4xf32>, !conv2
    %z2 = nabla.add %y2, %c2 : tensor<1x64x2xf32>, tensor<1x64x2xf32>
    %x2 = nabla.relu %z2 : tensor<1x64x2xf32>
    %y3 = nabla.conv_general %x2, %w3 strides = [2] low = [1] high = [1] : tensor<1x64x2xf32>, !conv3
    %z3 = nabla.add %y3, %c3 : tensor<1x64x1xf32>, tensor<1x64x1xf32>
    %x3 = nabla.relu %z3 : tensor<1x64x1xf32>
    %y4 = nabla.conv_general %x3, %w4 low = [1] high = [1] : tensor<1x64x1xf32>, !conv4
    %z4 = nabla.add %y4, %c4 : tensor<1x128x1xf32>, tensor<1x128x1xf32>
    %x4 = nabla.relu %z4 : tensor<1x128x1xf32>

    // the cell: input, forget, cell and output gates in one product each
    %v = nabla.reshape %x4 : tensor<1x128x1xf32> -> !state
    %gx = nabla.dot_general %v, %wi contracting = [1] x [1] : !state, !input
    %gh = nabla.dot_general %h, %wh contracting = [1] x [1] : !state, !hidden
    %gs = nabla.add %gx, %gh : !gates, !gates
    %g = nabla.add %gs, %cg : !gates, !gates
    %gi, %gf, %gc, %go = nabla.split %g dim = 1 sizes = [128, 128, 128, 128] : !gates
    %i = nabla.sigmoid %gi : !state
    %k = nabla.sigmoid %gf : !state
    %n = nabla.tanh %gc : !state
    %o = nabla.sigmoid %go : !state
    %kc = nabla.mul %k, %c : !state, !state
    %in = nabla.mul %i, %n : !state, !state
    %cell = nabla.add %kc, %in : !state, !state
    %t = nabla.tanh %cell : !state
    %hidden = nabla.mul %o, %t : !state, !state

    %r = nabla.relu %hidden : !state
    %r3 = nabla.reshape %r : !state -> tensor<1x128x1xf32>
    %yf = nabla.conv_general %r3, %wf : tensor<1x128x1xf32>, !final
    %zf = nabla.add %yf, %cf : tensor<1x1x1xf32>, tensor<1x1x1xf32>
    %p = nabla.sigmoid %zf : tensor<1x1x1xf32>
    nabla.yield %next, %hidden, %cell, %p : !context, !state, !state, tensor<1x1x1xf32>
  }
  return %out#3, %out#1, %out#2 : tensor<?x1x1x1xf32>, !state, !state
}
