package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/gorun/gorun/internal/net/wire"
)

// versionCommand is gorun version.
type versionCommand struct {
	*invocation
	json bool
}

func newVersion(call *invocation) *cobra.Command {
	c := &versionCommand{invocation: call}
	cmd := call.define(&cobra.Command{
		Use:   "version",
		Short: "Show the version of gorun",
		Args:  noArguments,
	}, c)
	cmd.Flags().BoolVar(&c.json, "json", false, "print one JSON object")
	return cmd
}

func (c *versionCommand) Run(context.Context) (code int, err error) {
	if !c.json {
		if _, err := io.WriteString(c.plain, c.line.Dialect.Version()); err != nil {
			return 0, err
		}
	}
	return 0, ownVersion().write(c.plain, c.json)
}

// version describes this gorun.
type version struct {
	// the tag, or what Go derives from the last one and the commit; "(devel)": built outside of git
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // the checkout had changes
	Protocol int    `json:"protocol"`           // between launcher and agents
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

func ownVersion() version {
	info, _ := debug.ReadBuildInfo()
	return versionOf(info)
}

// versionOf returns the version in the build information; nil has none.
func versionOf(info *debug.BuildInfo) version {
	v := version{
		Version:  "(devel)",
		Protocol: wire.Protocol,
		Go:       runtime.Version(),
		OS:       runtime.GOOS,
		Arch:     runtime.GOARCH,
	}
	if info == nil {
		return v
	}
	v.Version = info.Main.Version
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func (v version) write(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(v)
	}
	_, err := fmt.Fprintln(w, v)
	return err
}

func (v version) String() string {
	commit := ""
	if v.Commit != "" {
		commit = " " + v.Commit
	}
	return fmt.Sprintf("gorun %s%s, protocol %d, %s %s/%s", v.Version, commit, v.Protocol, v.Go, v.OS, v.Arch)
}
