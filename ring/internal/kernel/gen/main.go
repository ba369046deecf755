package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
)

func main() {
	check := flag.Bool("check", false, "compare the files with what would be written")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: gen [-check] folder")
		os.Exit(2)
	}
	act := write
	if *check {
		act = compare
	}
	if err := generate(flag.Arg(0), act); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// generate makes every file and hands it to act.
func generate(folder string, act func(path string, text []byte) error) error {
	for _, t := range tiers() {
		file, text, err := assemble(t)
		if err != nil {
			return fmt.Errorf("assembling %s: %w", t.name, err)
		}
		stubs, err := callers(t, file.Functions())
		if err != nil {
			return fmt.Errorf("writing the callers of %s: %w", t.name, err)
		}
		base := filepath.Join(folder, t.name+"_amd64")
		if err := errors.Join(act(base+".s", text), act(base+".go", stubs)); err != nil {
			return err
		}
	}
	return nil
}

func write(path string, text []byte) error { return os.WriteFile(path, text, 0o644) }

func compare(path string, text []byte) error {
	have, err := os.ReadFile(path)
	if err == nil && !bytes.Equal(have, text) {
		err = fmt.Errorf("%s is not what the generator writes: run go generate", path)
	}
	return err
}

// assemble makes the assembly file of a tier.
func assemble(t tier) (*ir.File, []byte, error) {
	c := build.NewContext()
	for _, r := range reductions(t) {
		r.write(c, t)
	}
	for _, e := range floats() {
		writeMap(c, t, "Mul", e.elem, e.precision, e.mul)
		writeMap(c, t, "Div", e.elem, e.precision, e.div)
	}
	for _, pair := range conversions() {
		writeConvert(c, t, pair[0], pair[1])
	}
	writeCopyNT(c, t)
	if t.name == "avx2" {
		writeCPUID(c)
	}
	file, err := c.Result()
	if err != nil {
		return nil, nil, err
	}
	if err := pass.Compile.Execute(file); err != nil {
		return nil, nil, err
	}
	text, err := printer.NewGoAsm(printer.Config{Name: "gen"}).Print(file)
	return file, compact(text), err
}

// compact drops blank lines and comments, except those of the header, which Go tools read.
func compact(text []byte) []byte {
	header, body, _ := bytes.Cut(text, []byte("TEXT"))
	out := bytes.TrimRight(header[:bytes.LastIndex(header, []byte("\n\n"))], "\n")
	out = append(out, "\n\nTEXT"...)
	for line := range bytes.Lines(body) {
		if len(bytes.TrimSpace(line)) > 0 && !bytes.HasPrefix(line, []byte("//")) {
			out = append(out, line...)
		}
	}
	return out
}
