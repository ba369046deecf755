package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/internal/test/lab"
)

// Every flag and command has its place in the manual, and its exit codes are those of the documentation.
func TestManualIsComplete(t *testing.T) {
	root := newRoot(nil)
	text := manual(root).Roff()
	for _, name := range visible(root) {
		if !strings.Contains(text, ".B gorun "+name) {
			t.Errorf("the manual has no command %s", name)
		}
	}
	plain := strings.ReplaceAll(text, `\-`, "-")
	root.Flags().VisitAll(func(f *pflag.Flag) {
		if strings.Count(plain, "--"+f.Name+"\n")+strings.Count(plain, "--"+f.Name+" "+f.Value.Type()) == 0 && !strings.Contains(plain, "--"+f.Name+" ") {
			t.Errorf("the manual has no --%s", f.Name)
		}
	})
	doc, err := os.ReadFile("../../docs/exit-codes.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range places() {
		for _, term := range s.Terms {
			if s.Title == "Exit status" && term.Word != "others" && !strings.Contains(string(doc), "| "+term.Word+" |") {
				t.Errorf("docs/exit-codes.md has no %s", term.Word)
			}
		}
	}
}

// groff, man's own reader, has no complaint about any page.
func TestManualIsSound(t *testing.T) {
	lab.Need(t, "groff")
	for _, page := range []string{"", "bench", "compat", "man", "completion"} {
		r := start(t, nil, strings.Fields("man "+page)...).want(0)
		cmd := exec.CommandContext(t.Context(), "groff", "-man", "-Tutf8", "-ww", "-k", "-Z")
		cmd.Stdin = bytes.NewReader(r.out.Bytes())
		var complaints bytes.Buffer
		cmd.Stderr = &complaints
		if err := cmd.Run(); err != nil || complaints.Len() > 0 {
			t.Errorf("gorun man %s: %v\n%s", page, err, &complaints)
		}
	}
	start(t, nil, "man", "nosuch").want(2, `there is no command "nosuch"`, "bench")
}
