package cluster

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// Image is an image to be made of layers that are there, in the format of docker save.
type Image struct {
	Name    string // with its registry and tag
	User    string
	Command []string
	Layers  []string // tar files
}

const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Write writes the image's archive.
func (i Image) Write(to string) (err error) {
	file, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	archive := tar.NewWriter(file)
	var names, hashes []string
	for number, layer := range i.Layers {
		name := strconv.Itoa(number) + ".tar"
		hash, err := addFile(archive, name, layer)
		if err != nil {
			return err
		}
		names = append(names, name)
		hashes = append(hashes, "sha256:"+hash)
	}
	type object map[string]any
	config, err := json.Marshal(object{
		"architecture": "amd64",
		"os":           "linux",
		"config":       object{"User": i.User, "Cmd": i.Command, "Env": []string{searchPath}},
		"rootfs":       object{"type": "layers", "diff_ids": hashes},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]object{{"Config": "config.json", "RepoTags": []string{i.Name}, "Layers": names}})
	if err != nil {
		return err
	}
	return errors.Join(addText(archive, "config.json", config), addText(archive, "manifest.json", manifest),
		archive.Close())
}

// addFile adds a file to an archive and returns its SHA-256.
func addFile(archive *tar.Writer, name, from string) (hash string, err error) {
	file, err := os.Open(from)
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	if err := archive.WriteHeader(header(name, info.Mode(), info.Size())); err != nil {
		return "", err
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(archive, sum), file)
	return hex.EncodeToString(sum.Sum(nil)), err
}

// header describes a file of an archive. Its time is always the same, so that equal layers have
// equal hashes.
func header(name string, mode os.FileMode, size int64) *tar.Header {
	return &tar.Header{
		Name:    name,
		Mode:    int64(mode.Perm()),
		Size:    size,
		ModTime: time.Unix(0, 0),
	}
}

func addText(archive *tar.Writer, name string, text []byte) error {
	if err := archive.WriteHeader(header(name, 0o644, int64(len(text)))); err != nil {
		return err
	}
	_, err := archive.Write(text)
	return err
}

// WriteLayer writes a layer with files: from their paths in the image to those here. Folders above
// them are root's, with mode 0755.
func WriteLayer(to string, files map[string]string) (err error) {
	file, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	archive := tar.NewWriter(file)
	made := map[string]bool{".": true}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for _, folder := range above(name) {
			if made[folder] {
				continue
			}
			made[folder] = true
			entry := &tar.Header{Typeflag: tar.TypeDir, Name: folder + "/", Mode: 0o755}
			if err := archive.WriteHeader(entry); err != nil {
				return err
			}
		}
		if _, err := addFile(archive, name, filepath.Clean(files[name])); err != nil {
			return err
		}
	}
	return archive.Close()
}

// above returns the folders above a path, the highest first.
func above(name string) (folders []string) {
	for folder := path.Dir(name); folder != "."; folder = path.Dir(folder) {
		folders = append([]string{folder}, folders...)
	}
	return folders
}
