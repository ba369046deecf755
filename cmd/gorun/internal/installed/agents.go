package installed

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/gorun/gorun/internal/buildid"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
)

// maxSize bounds a gorun that is read, compressed and uncompressed, in bytes.
const maxSize = 128 << 20

// Own describes the running gorun, and the others beside it.
func Own() (launcher.Executable, error) {
	path, err := os.Executable()
	if err != nil {
		return launcher.Executable{}, fmt.Errorf("find gorun itself: %w", err)
	}
	own := launcher.Executable{Path: path, Other: func(machine string) (launcher.Executable, error) {
		return other(path, machine)
	}}
	if runtime.GOOS != "linux" {
		return own, nil
	}
	self, err := buildid.Self()
	if err != nil {
		return own, fmt.Errorf("find gorun itself: %w", err)
	}
	if own.Build, err = buildid.Of(self); err != nil {
		return own, fmt.Errorf("read gorun itself: %w", err)
	}
	own.Hash = sync.OnceValues(func() (string, error) { return buildid.Hash(self) })
	return own, nil
}

// archOf returns Go's name of the architecture that uname(1) names machine, or "".
func archOf(machine string) string {
	switch machine {
	case "x86_64", "amd64":
		return "amd64"
	case "aarch64", "arm64":
		return "arm64"
	}
	return ""
}

// other loads the gorun for a machine, which is beside the gorun at path.
func other(path, machine string) (launcher.Executable, error) {
	arch := archOf(machine)
	if arch == "" {
		return launcher.Executable{}, fmt.Errorf("there is no gorun for it")
	}
	name := "gorun-linux-" + arch + ".gz"
	file, err := Path(path, name)
	if errors.Is(err, fs.ErrNotExist) {
		return launcher.Executable{}, usage.Errorf("put "+name+
			" of the same release there (make agents), or choose hosts of one kind", "%w", err)
	}
	if err != nil {
		return launcher.Executable{}, err
	}
	packed, program, err := unpack(file)
	if err == nil {
		err = check(program, arch)
	}
	if err != nil {
		return launcher.Executable{}, fmt.Errorf("use %s: %w", file, err)
	}
	sum := sha256.Sum256(program)
	hash := hex.EncodeToString(sum[:])
	return launcher.Executable{
		Path:   path,
		Build:  buildid.In(program),
		Hash:   func() (string, error) { return hash, nil },
		Packed: func() ([]byte, error) { return packed, nil },
	}, nil
}

// unpack returns a gzip file and its decompressed content. It allocates each buffer once, because
// each has some 10 MB.
func unpack(path string) (packed, program []byte, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if info.Size() > maxSize {
		return nil, nil, errTooLarge
	}
	if packed, err = os.ReadFile(path); err != nil {
		return nil, nil, err
	}
	zip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return packed, nil, err
	}
	// The file ends with the size of its content, which may be wrong.
	size := binary.LittleEndian.Uint32(packed[len(packed)-4:])
	if size > maxSize {
		return packed, nil, errTooLarge
	}
	content := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	if _, err = content.ReadFrom(io.LimitReader(zip, maxSize+1)); err == nil && content.Len() > maxSize {
		err = errTooLarge
	}
	return packed, content.Bytes(), err
}

var errTooLarge = errors.New("it is too large")

// check returns an error unless program is this version of gorun for Linux on arch.
func check(program []byte, arch string) error {
	built, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		return err
	}
	if got := setting(built, "GOOS") + "/" + setting(built, "GOARCH"); got != "linux/"+arch {
		return fmt.Errorf("it is for %s", got)
	}
	if own, ok := debug.ReadBuildInfo(); ok {
		mine := version(own)
		its := version(built)
		if mine != its {
			return usage.Errorf("make agents makes it anew; a release has both",
				"it is version %s, and this gorun is %s", its, mine)
		}
	}
	return nil
}

func version(info *debug.BuildInfo) string {
	return info.Main.Version + " " + setting(info, "vcs.revision")
}

func setting(info *debug.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}
