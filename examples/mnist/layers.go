package main

// weights is a layer's part of the parameters or of the gradients.
type weights struct {
	rows [][]float32 // of each unit, one for each input
	bias []float32   // of each unit
}

// cut returns the start of all as weights.
func cut(all []float32, units, inputs int) (w weights) {
	for i := range units {
		w.rows = append(w.rows, all[i*inputs:(i+1)*inputs])
	}
	w.bias = all[units*inputs : units*(inputs+1)]
	return w
}

// dense is a layer in which every unit sees every input.
type dense struct {
	p, g         weights
	in, inGrad   []float32 // the out and outGrad of the layer before
	out, outGrad []float32
}

func newDense(p, g weights, in, inGrad []float32) *dense {
	units := len(p.rows)
	return &dense{
		p:       p,
		g:       g,
		in:      in,
		inGrad:  inGrad,
		out:     make([]float32, units),
		outGrad: make([]float32, units),
	}
}

func (d *dense) forward() {
	for i, row := range d.p.rows {
		d.out[i] = d.p.bias[i] + dot(row, d.in)
	}
}

// backward adds to the layer's gradients, and computes those of its input.
func (d *dense) backward() {
	clear(d.inGrad)
	for i, grad := range d.outGrad {
		if grad == 0 {
			continue
		}
		d.g.bias[i] += grad
		addScaled(d.g.rows[i], d.in, grad)
		addScaled(d.inGrad, d.p.rows[i], grad)
	}
}

const filterSize = 3 * 3

// filters move over an image with a border of zeros. Of each 2×2 answers of a filter,
// only the largest counts, if it is positive.
type filters struct {
	p, g         weights
	rows, cols   int       // of the image
	in           []float32 // the image with its border: rows+2 by cols+2
	out, outGrad []float32 // of each position, all filters
	from         []int     // the position in the image that gave each out
}

func newFilters(rows, cols int, p, g weights) *filters {
	n := (rows / 2) * (cols / 2) * len(p.rows)
	return &filters{
		p:       p,
		g:       g,
		rows:    rows,
		cols:    cols,
		in:      make([]float32, (rows+2)*(cols+2)),
		out:     make([]float32, n),
		outGrad: make([]float32, n),
		from:    make([]int, n),
	}
}

func (f *filters) forward() {
	width := f.cols + 2
	i := 0
	for row := 0; row+1 < f.rows; row += 2 {
		for col := 0; col+1 < f.cols; col += 2 {
			corner := row*width + col
			for unit, filter := range f.p.rows {
				best := f.answer(filter, corner)
				at := corner
				for _, next := range [...]int{corner + 1, corner + width, corner + width + 1} {
					if a := f.answer(filter, next); a > best {
						best = a
						at = next
					}
				}
				f.out[i] = max(0, best+f.p.bias[unit])
				f.from[i] = at
				i++
			}
		}
	}
}

// answer is filter's for the 3×3 pixels that start at corner.
func (f *filters) answer(w []float32, corner int) float32 {
	width := f.cols + 2
	a := f.in[corner : corner+3 : corner+3]
	b := f.in[corner+width : corner+width+3 : corner+width+3]
	c := f.in[corner+2*width : corner+2*width+3 : corner+2*width+3]
	w = w[:filterSize]
	return a[0]*w[0] + a[1]*w[1] + a[2]*w[2] + b[0]*w[3] + b[1]*w[4] + b[2]*w[5] + c[0]*w[6] + c[1]*w[7] + c[2]*w[8]
}

// backward adds to the filters' gradients. The image needs none.
func (f *filters) backward() {
	width := f.cols + 2
	units := len(f.p.rows)
	for i, grad := range f.outGrad {
		if f.out[i] == 0 || grad == 0 {
			continue
		}
		unit := i % units
		f.g.bias[unit] += grad
		for row := range 3 {
			at := f.from[i] + row*width
			addScaled(f.g.rows[unit][3*row:3*row+3], f.in[at:at+3], grad)
		}
	}
}

// relu replaces what is below zero by zero.
func relu(x []float32) {
	for i := range x {
		x[i] = max(0, x[i])
	}
}

// reluGrad stops the gradients of what relu has replaced.
func reluGrad(grad, out []float32) {
	for i := range grad {
		if out[i] == 0 {
			grad[i] = 0
		}
	}
}

func dot(a, b []float32) (sum float32) {
	b = b[:len(a)]
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

// addScaled adds scale·b to a.
func addScaled(a, b []float32, scale float32) {
	b = b[:len(a)]
	for i := range a {
		a[i] += scale * b[i]
	}
}
