package main

import (
	"math"
	"math/rand/v2"
)

// network is a convolution with max pooling and two dense layers:
//
//	pixels → filters of 3×3 (ReLU) → pool 2×2 → hidden units (ReLU) → classes (softmax)
//
// All parameters are in one slice, and all gradients in another of the same order,
// so that one call broadcasts or averages them all.
type network struct {
	params, grads []float32

	filters        *filters
	hidden, output *dense
	probability    []float64 // of the classes, for the image at hand
}

func newNetwork(rows, cols, count, hidden int) *network {
	pooled := (rows / 2) * (cols / 2) * count
	n := &network{probability: make([]float64, classes)}
	size := count*(filterSize+1) + hidden*(pooled+1) + classes*(hidden+1)
	n.params = make([]float32, size)
	n.grads = make([]float32, size)
	params := n.params
	grads := n.grads
	take := func(units, inputs int) (p, g weights) {
		end := units * (inputs + 1)
		p = cut(params, units, inputs)
		g = cut(grads, units, inputs)
		params = params[end:]
		grads = grads[end:]
		return p, g
	}
	p, g := take(count, filterSize)
	n.filters = newFilters(rows, cols, p, g)
	p, g = take(hidden, pooled)
	n.hidden = newDense(p, g, n.filters.out, n.filters.outGrad)
	p, g = take(classes, hidden)
	n.output = newDense(p, g, n.hidden.out, n.hidden.outGrad)
	return n
}

// randomize draws the weights from normal distributions whose widths keep the size
// of signals from layer to layer (He et al., 2015). The biases stay zero.
func (n *network) randomize(random *rand.Rand) {
	for _, layer := range []weights{n.filters.p, n.hidden.p, n.output.p} {
		for _, row := range layer.rows {
			width := math.Sqrt(2 / float64(len(row)))
			for i := range row {
				row[i] = float32(width * random.NormFloat64())
			}
		}
	}
}

// predict computes the probabilities of the classes for the image that is in the
// filters' input. It returns the cross-entropy loss and whether label is the likeliest.
func (n *network) predict(label byte) (loss float64, right bool) {
	n.filters.forward()
	n.hidden.forward()
	relu(n.hidden.out)
	n.output.forward()

	scores := n.output.out
	best := 0
	for i, score := range scores {
		if score > scores[best] {
			best = i
		}
	}
	sum := 0.0
	for i, score := range scores {
		n.probability[i] = math.Exp(float64(score - scores[best]))
		sum += n.probability[i]
	}
	for i := range n.probability {
		n.probability[i] /= sum
	}
	return math.Log(sum) + float64(scores[best]-scores[label]), best == int(label)
}

// learn adds the gradient for the image that was just predicted to n.grads, times
// weight.
func (n *network) learn(label byte, weight float32) {
	for i, p := range n.probability {
		n.output.outGrad[i] = weight * float32(p)
	}
	n.output.outGrad[label] -= weight
	n.output.backward()
	reluGrad(n.hidden.outGrad, n.hidden.out)
	n.hidden.backward()
	n.filters.backward()
}
