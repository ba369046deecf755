package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// idx encodes data with sizes in the file format.
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
	must.Get(w.Write(data))(t)
	must.OK(t, w.Close())
	return b.Bytes()
}

func TestReadIDX(t *testing.T) {
	good := idx([]byte("abcdef"), 3, 2, 1)
	zipped := zip(t, good)
	for name, tc := range map[string]struct {
		file []byte
		want string // the error; "" means none
	}{
		"plain":     {good, ""},
		"gzipped":   {zipped, ""},
		"empty":     {nil, "not an IDX file"},
		"no data":   {good[:10], "not an IDX file"},
		"text":      {[]byte("<html>not found</html>"), "not an IDX file"},
		"labels":    {idx(make([]byte, 20), 20), "not an IDX file of bytes in 3 dimensions"},
		"truncated": {good[:len(good)-1], "5 bytes of data for sizes [3 2 1]"},
		"too long":  {append(slices.Clone(good), 0), "7 bytes of data"},
		"zero":      {idx(nil, 3, 0, 1), "0 bytes of data"},
		"huge":      {idx(nil, 1<<31, 1<<31, 1<<31), "0 bytes of data"},
		"bad gzip":  {zipped[:5], "EOF"},
		"cut gzip":  {zipped[:len(zipped)-9], "EOF"},
		"wrong crc": {append(bytes.Clone(zipped[:len(zipped)-8]), 1, 2, 3, 4, 6+16, 0, 0, 0), "checksum"},
	} {
		for _, suffix := range []string{"", ".gz"} {
			sizes, data, err := readIDX(fstest.MapFS{"f" + suffix: {Data: tc.file}}, "f", 3)
			switch {
			case tc.want == "" && (err != nil || string(data) != "abcdef" || !slices.Equal(sizes, []int{3, 2, 1})):
				t.Errorf("%s: sizes %v, data %q, %v", name, sizes, data, err)
			case tc.want != "" && (err == nil || !strings.HasPrefix(err.Error(), "f") ||
				!strings.Contains(err.Error(), tc.want)):
				t.Errorf("%s: error is %v, want %q", name, err, tc.want)
			}
		}
	}
}

// FuzzReadIDX: what is accepted is exactly what its encoding says.
func FuzzReadIDX(f *testing.F) {
	f.Add(idx([]byte("abcdef"), 3, 2, 1), uint8(3))
	f.Add(zip(f, idx([]byte{1, 2, 3}, 3)), uint8(1))
	f.Add(idx(nil, 1<<31, 1<<31, 1<<31), uint8(3))
	f.Fuzz(func(t *testing.T, file []byte, dimensions uint8) {
		sizes, data, err := readIDX(fstest.MapFS{"f": {Data: file}}, "f", int(dimensions%4))
		if err != nil || bytes.HasPrefix(file, []byte{0x1f, 0x8b}) {
			return
		}
		var again []uint32
		for _, size := range sizes {
			again = append(again, uint32(size))
		}
		check.That(t, bytes.Equal(idx(data, again...), file), "%x is read as %v %x", file, sizes, data)
	})
}

func TestLoad(t *testing.T) {
	train, test, err := load("")
	must.That(t, err == nil && train.len() == 1440 && test.len() == 357 && train.rows == 8 && train.cols == 8,
		"built-in data: %v", err)
	dir := t.TempDir()
	for _, step := range []struct {
		file string
		data []byte
		want string // the error that is left; "" means none
	}{
		{"train-images-idx3-ubyte", idx(make([]byte, 2*28*28), 2, 28, 28), "train-labels-idx1-ubyte, plain or .gz"},
		{"train-labels-idx1-ubyte", idx([]byte{3, 9}, 2), "t10k-images-idx3-ubyte, plain or .gz"},
		{"t10k-images-idx3-ubyte.gz", zip(t, idx(make([]byte, 28*28), 1, 28, 28)),
			"t10k-labels-idx1-ubyte, plain or .gz"},
		{"t10k-labels-idx1-ubyte", idx([]byte{10}, 1), "t10k: label 0 is 10"},
		{"t10k-labels-idx1-ubyte", idx([]byte{1, 2}, 2), "t10k: 2 labels for 1 images"},
		{"t10k-labels-idx1-ubyte", idx([]byte{1}, 1), ""},
		{"t10k-images-idx3-ubyte.gz", zip(t, idx(make([]byte, 8*28), 1, 8, 28)), "28×28 pixels, test images 8×28"},
	} {
		must.OK(t, os.WriteFile(filepath.Join(dir, step.file), step.data, 0o600))
		if _, _, err := load(dir); step.want == "" && err != nil || step.want != "" &&
			(err == nil || !strings.Contains(err.Error(), step.want)) {
			t.Errorf("with %s: %v, want %q", step.file, err, step.want)
		}
	}
}
