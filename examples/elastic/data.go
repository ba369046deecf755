package main

import (
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// images is a set of labelled images.
type images struct {
	pixels int // of one
	values []float32
	labels []byte
}

func (d *images) image(i int) []float32 { return d.values[i*d.pixels : (i+1)*d.pixels] }

// load reads one of MNIST's two sets.
func load(folder, set string) (*images, error) {
	sizes, pixels, err := readIDX(filepath.Join(folder, set+"-images-idx3-ubyte.gz"), 3)
	if err != nil {
		return nil, err
	}
	count, labels, err := readIDX(filepath.Join(folder, set+"-labels-idx1-ubyte.gz"), 1)
	if err != nil {
		return nil, err
	}
	if count[0] != sizes[0] {
		return nil, fmt.Errorf("%s: %s has %d images and %d labels", folder, set, sizes[0], count[0])
	}
	d := &images{pixels: int(sizes[1] * sizes[2]), values: make([]float32, len(pixels)), labels: labels}
	for i, p := range pixels {
		d.values[i] = float32(p) / 255
	}
	return d, nil
}

// readIDX reads an array of bytes: two zeros, the type, the number of dimensions, each as a
// big-endian word, and the bytes.
func readIDX(name string, dimensions int) (sizes []uint32, data []byte, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: give the folder by --data", err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	head := make([]byte, 4+4*dimensions)
	if _, err := io.ReadFull(z, head); err != nil || head[2] != 8 || int(head[3]) != dimensions {
		return nil, nil, fmt.Errorf("%s is not an IDX file of bytes in %d dimensions", name, dimensions)
	}
	total := uint32(1)
	for i := range dimensions {
		sizes = append(sizes, binary.BigEndian.Uint32(head[4+4*i:]))
		total *= sizes[i]
	}
	if data, err = io.ReadAll(z); err != nil || len(data) != int(total) {
		return nil, nil, fmt.Errorf("%s has %d bytes of %d: %v", name, len(data), total, err)
	}
	return sizes, data, nil
}
