package main

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// builtin is a small data set in the program itself, so that hosts need no files. See
// data/README.md.
//
//go:embed data/*.gz
var builtin embed.FS

const classes = 10

// dataset is labelled images.
type dataset struct {
	rows, cols int
	pixels     []byte // of all images, row by row, 0 to 255
	labels     []byte // one for each image, below classes
}

func (d *dataset) len() int { return len(d.labels) }

// image puts image i into x, scaled to 0..1, inside a border of one pixel that stays as it is.
func (d *dataset) image(i int, x []float32) {
	pixels := d.pixels[i*d.rows*d.cols:]
	for row := range d.rows {
		to := x[(row+1)*(d.cols+2)+1:]
		for col, p := range pixels[row*d.cols : (row+1)*d.cols] {
			to[col] = float32(p) / 255
		}
	}
}

// load reads both sets from a folder with MNIST's four files, or the built-in sets if folder is
// empty.
func load(folder string) (train, test *dataset, err error) {
	files := os.DirFS(folder)
	if folder == "" {
		if files, err = fs.Sub(builtin, "data"); err != nil {
			return nil, nil, err
		}
	}
	if train, err = loadSet(files, "train"); err != nil {
		return nil, nil, err
	}
	if test, err = loadSet(files, "t10k"); err != nil {
		return nil, nil, err
	}
	if train.rows != test.rows || train.cols != test.cols {
		return nil, nil, fmt.Errorf("training images have %d×%d pixels, test images %d×%d", train.rows, train.cols,
			test.rows, test.cols)
	}
	return train, test, nil
}

func loadSet(files fs.FS, set string) (*dataset, error) {
	size, pixels, err := readIDX(files, set+"-images-idx3-ubyte", 3)
	if err != nil {
		return nil, err
	}
	_, labels, err := readIDX(files, set+"-labels-idx1-ubyte", 1)
	if err != nil {
		return nil, err
	}
	if len(labels) != size[0] {
		return nil, fmt.Errorf("%s: %d labels for %d images", set, len(labels), size[0])
	}
	for i, label := range labels {
		if label >= classes {
			return nil, fmt.Errorf("%s: label %d is %d, not below %d", set, i, label, classes)
		}
	}
	return &dataset{
		rows:   size[1],
		cols:   size[2],
		pixels: pixels,
		labels: labels,
	}, nil
}

// readIDX reads an array of bytes from a file, plain or gzipped, whose name may end in .gz. The
// format is MNIST's: two zeros, the element type, the number of dimensions, the size of each as a
// big-endian word, and the elements.
func readIDX(files fs.FS, name string, dimensions int) (sizes []int, data []byte, err error) {
	file, err := fs.ReadFile(files, name)
	if errors.Is(err, fs.ErrNotExist) {
		file, err = fs.ReadFile(files, name+".gz")
	}
	if err == nil && bytes.HasPrefix(file, []byte{0x1f, 0x8b}) {
		file, err = unzip(file)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s, plain or .gz: %w", name, err)
	}
	header := 4 + 4*dimensions
	if len(file) < header || !bytes.Equal(file[:4], []byte{0, 0, 8, byte(dimensions)}) {
		return nil, nil, fmt.Errorf("%s: not an IDX file of bytes in %d dimensions", name, dimensions)
	}
	data = file[header:]
	total := 1
	for i := range dimensions {
		size := int(binary.BigEndian.Uint32(file[4+4*i:]))
		if sizes = append(sizes, size); total > len(data) {
			break // the product may overflow
		}
		total *= size
	}
	if total == 0 || total != len(data) {
		return nil, nil, fmt.Errorf("%s: %d bytes of data for sizes %v", name, len(data), sizes)
	}
	return sizes, data, nil
}

func unzip(file []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}
