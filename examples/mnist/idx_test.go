package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// idx encodes data with sizes, as the file format has it.
func idx(data []byte, sizes ...uint32) []byte {
	b := []byte{0, 0, 8, byte(len(sizes))}
	for _, size := range sizes {
		b = binary.BigEndian.AppendUint32(b, size)
	}
	return append(b, data...)
}

func zip(t testing.TB, data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestReadIDX(t *testing.T) {
	images := idx([]byte("abcdefghijkl"), 2, 3, 2)
	for name, file := range map[string][]byte{"plain": images, "gzipped": zip(t, images)} {
		sizes, data, err := readIDX(name, bytes.NewReader(file), 3)
		if err != nil || string(data) != "abcdefghijkl" || len(sizes) != 3 || sizes[0] != 2 || sizes[1] != 3 || sizes[2] != 2 {
			t.Errorf("%s: sizes %v, data %q, %v", name, sizes, data, err)
		}
	}
}

func TestReadIDXErrors(t *testing.T) {
	good := idx([]byte("abcdef"), 3, 2, 1)
	zipped := zip(t, good)
	tests := map[string]struct {
		file []byte
		want string
	}{
		"empty":      {nil, "offset 0: in the header"},
		"no data":    {good[:10], "offset 10: in the header"},
		"text":       {[]byte("<html>not found</html>"), "offset 0: magic number is 3c68746d"},
		"labels":     {idx(make([]byte, 20), 20), "offset 0: magic number is 00000801, want 00000803"},
		"truncated":  {good[:len(good)-1], "offset 21: ends after 5 of 6"},
		"too long":   {append(good, 0), "offset 22: more data"},
		"zero":       {idx(nil, 3, 0, 1), "offset 8: dimension 1 is 0"},
		"huge":       {idx(nil, 1<<31, 1<<31, 1<<31), "offset 8: dimension 1 is 2147483648"},
		"bad gzip":   {zipped[:5], "offset 0:"},
		"cut gzip":   {zipped[:len(zipped)-9], "unexpected EOF"},
		"wrong crc":  {append(bytes.Clone(zipped[:len(zipped)-8]), 1, 2, 3, 4, 6+16, 0, 0, 0), "checksum"},
		"gzip bombs": {zip(t, append(good, make([]byte, 1<<20)...)), "offset 22: more data"},
	}
	for name, test := range tests {
		_, _, err := readIDX("some.file", bytes.NewReader(test.file), 3)
		if err == nil || !strings.HasPrefix(err.Error(), "some.file: offset ") || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error is %v, want %q", name, err, test.want)
		}
	}
}

// FuzzReadIDX: what is accepted is exactly what its encoding says.
func FuzzReadIDX(f *testing.F) {
	f.Add(idx([]byte("abcdef"), 3, 2, 1), uint8(3))
	f.Add(idx([]byte{1, 2, 3}, 3), uint8(1))
	f.Add(zip(f, idx([]byte{1, 2, 3}, 3)), uint8(1))
	f.Add(idx(nil, 1<<31, 1<<31, 1<<31), uint8(3))
	f.Fuzz(func(t *testing.T, file []byte, dimensions uint8) {
		sizes, data, err := readIDX("f", bytes.NewReader(file), int(dimensions%4))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f: offset ") {
				t.Errorf("error without a place: %v", err)
			}
			return
		}
		if bytes.HasPrefix(file, []byte{0x1f, 0x8b}) {
			return
		}
		var again []uint32
		for _, size := range sizes {
			again = append(again, uint32(size))
		}
		if !bytes.Equal(idx(data, again...), file) {
			t.Errorf("%x is read as %v %x", file, sizes, data)
		}
	})
}

func TestLoad(t *testing.T) {
	train, test, err := load("")
	if err != nil {
		t.Fatal(err)
	}
	if train.len() != 1440 || test.len() != 357 || train.rows != 8 || train.cols != 8 {
		t.Errorf("built-in data has %d and %d images of %d×%d", train.len(), test.len(), train.rows, train.cols)
	}
	write := func(dir, name string, data []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	write(dir, "train-images-idx3-ubyte", idx(make([]byte, 2*28*28), 2, 28, 28))
	write(dir, "train-labels-idx1-ubyte", idx([]byte{3, 9}, 2))
	write(dir, "t10k-images-idx3-ubyte.gz", zip(t, idx(make([]byte, 28*28), 1, 28, 28)))
	if _, _, err := load(dir); err == nil || !strings.Contains(err.Error(), "t10k-labels-idx1-ubyte, plain or .gz") {
		t.Errorf("a missing file: %v", err)
	}
	write(dir, "t10k-labels-idx1-ubyte", idx([]byte{10}, 1))
	if _, _, err := load(dir); err == nil || !strings.Contains(err.Error(), "t10k-labels-idx1-ubyte: offset 8: label 10") {
		t.Errorf("a bad label: %v", err)
	}
	write(dir, "t10k-labels-idx1-ubyte", idx([]byte{1, 2}, 2))
	if _, _, err := load(dir); err == nil || !strings.Contains(err.Error(), "2 labels for 1 images") {
		t.Errorf("too many labels: %v", err)
	}
	write(dir, "t10k-labels-idx1-ubyte", idx([]byte{1}, 1))
	train, _, err = load(dir)
	if err != nil || train.rows != 28 || train.cols != 28 {
		t.Errorf("28×28 images: %+v, %v", train, err)
	}
	write(dir, "t10k-images-idx3-ubyte.gz", zip(t, idx(make([]byte, 8*28), 1, 8, 28)))
	if _, _, err := load(dir); err == nil || !strings.Contains(err.Error(), "28×28 pixels, test images 8×28") {
		t.Errorf("images of two sizes: %v", err)
	}
}
