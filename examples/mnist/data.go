package main

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// The built-in data set travels in the program, so that it runs on hosts where
// nothing is installed. See data/README.md.
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

// image puts image i into x, scaled to 0..1, with a border of one pixel that stays
// as it is.
func (d *dataset) image(i int, x []float32) {
	pixels := d.pixels[i*d.rows*d.cols:]
	for row := range d.rows {
		to := x[(row+1)*(d.cols+2)+1:]
		for col, p := range pixels[row*d.cols : (row+1)*d.cols] {
			to[col] = float32(p) / 255
		}
	}
}

// load reads both sets from a folder, or the built-in ones if it is empty.
func load(folder string) (train, test *dataset, err error) {
	var files fs.FS = os.DirFS(folder)
	if folder == "" {
		folder = "built-in data"
		if files, err = fs.Sub(builtin, "data"); err != nil {
			return nil, nil, err
		}
	}
	if train, err = loadSet(files, folder, "train"); err != nil {
		return nil, nil, err
	}
	if test, err = loadSet(files, folder, "t10k"); err != nil {
		return nil, nil, err
	}
	if train.rows != test.rows || train.cols != test.cols {
		return nil, nil, fmt.Errorf("%s: training images have %d×%d pixels, test images %d×%d",
			folder, train.rows, train.cols, test.rows, test.cols)
	}
	return train, test, nil
}

// loadSet reads the images and labels of one set, by the names that MNIST gives them.
func loadSet(files fs.FS, folder, set string) (*dataset, error) {
	_, size, pixels, err := loadFile(files, folder, set+"-images-idx3-ubyte", 3)
	if err != nil {
		return nil, err
	}
	name, count, labels, err := loadFile(files, folder, set+"-labels-idx1-ubyte", 1)
	if err != nil {
		return nil, err
	}
	if count[0] != size[0] {
		return nil, &idxError{name, 4, fmt.Errorf("%d labels for %d images", count[0], size[0])}
	}
	for i, label := range labels {
		if label >= classes {
			return nil, &idxError{name, int64(8 + i), fmt.Errorf("label %d, want one below %d", label, classes)}
		}
	}
	return &dataset{rows: size[1], cols: size[2], pixels: pixels, labels: labels}, nil
}

// loadFile reads a file that may have .gz at the end of its name.
func loadFile(files fs.FS, folder, name string, dimensions int) (path string, sizes []int, data []byte, err error) {
	path = folder + "/" + name
	f, err := files.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		if f, err = files.Open(name + ".gz"); err == nil {
			path += ".gz"
		}
	}
	if err != nil {
		return path, nil, nil, fmt.Errorf("%s, plain or .gz: %w", path, err)
	}
	defer f.Close()
	sizes, data, err = readIDX(path, f, dimensions)
	return path, sizes, data, err
}
