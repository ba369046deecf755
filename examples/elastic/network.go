package main

import (
	"math"
	"math/rand/v2"
)

const classes = 10

// network is pixels → hidden units (ReLU) → classes (softmax). Params are the weights of the units,
// each with its bias last; grads are in the same order.
type network struct {
	params, grads  []float32
	inputs, hidden int
	act, back      []float32 // outputs of the hidden units, and their gradients
	out            []float32 // probabilities of the classes
}

func newNetwork(inputs, hidden int, random *rand.Rand) *network {
	n := &network{
		inputs: inputs,
		hidden: hidden,
		act:    make([]float32, hidden),
		back:   make([]float32, hidden),
		out:    make([]float32, classes),
	}
	n.params = make([]float32, hidden*(inputs+1)+classes*(hidden+1))
	n.grads = make([]float32, len(n.params))
	for i := range n.params {
		fan := inputs
		if i >= hidden*(inputs+1) {
			fan = hidden
		}
		n.params[i] = float32(random.NormFloat64() * math.Sqrt(1/float64(fan)))
	}
	return n
}

// layers splits a vector of all parameters, or all gradients, by layer.
func (n *network) layers(all []float32) (hidden, output []float32) {
	return all[:n.hidden*(n.inputs+1)], all[n.hidden*(n.inputs+1):]
}

// forward computes n.act and n.out for an image.
func (n *network) forward(x []float32) {
	w, v := n.layers(n.params)
	for u := range n.act {
		n.act[u] = max(0, dot(w[u*(n.inputs+1):], x))
	}
	sum := float32(0)
	for u := range n.out {
		n.out[u] = float32(math.Exp(float64(dot(v[u*(n.hidden+1):], n.act))))
		sum += n.out[u]
	}
	for u := range n.out {
		n.out[u] /= sum
	}
}

// dot returns the weighted sum of x plus the bias, which follows the weights.
func dot(weights, x []float32) float32 {
	sum := weights[len(x)]
	for i, v := range x {
		sum += weights[i] * v
	}
	return sum
}

// guess returns the likeliest class of an image.
func (n *network) guess(x []float32) int {
	n.forward(x)
	best := 0
	for u, p := range n.out {
		if p > n.out[best] {
			best = u
		}
	}
	return best
}

// learn adds the gradient of one image's loss, times weight.
func (n *network) learn(x []float32, label byte, weight float32) {
	n.forward(x)
	_, v := n.layers(n.params)
	dw, dv := n.layers(n.grads)
	clear(n.back)
	for u, p := range n.out {
		if u == int(label) {
			p--
		}
		p *= weight
		row := v[u*(n.hidden+1):]
		drow := dv[u*(n.hidden+1):]
		for i, a := range n.act {
			n.back[i] += p * row[i]
			drow[i] += p * a
		}
		drow[n.hidden] += p
	}
	for u, g := range n.back {
		if n.act[u] == 0 {
			continue
		}
		drow := dw[u*(n.inputs+1):]
		for i, v := range x {
			drow[i] += g * v
		}
		drow[n.inputs] += g
	}
}
