package dialect

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"

	"gopkg.in/yaml.v3"

	"github.com/gorun/gorun/internal/usage"
)

// accelerateConfig reads the name of a file that accelerate config has made. finish reads the file.
func (t *translator) accelerateConfig(typed, text string) error {
	t.config = programFile{typed: typed, name: text}
	return nil
}

// readConfig translates the file of accelerate config: that of --config_file, or without --cpu the
// user's own if there is one. Flags of the command line win.
func (t *translator) readConfig() error {
	if t.dialect != Accelerate || !t.first() {
		return nil
	}
	from := t.config
	if from.typed == "" {
		own := filepath.Join(t.huggingFace(), "accelerate/default_config.yaml")
		if !filepath.IsAbs(own) || slices.Contains(t.Args, "--export=ACCELERATE_USE_CPU=True") {
			return nil
		}
		if exists, err := usesDefault(own, "--config_file"); err != nil || !exists {
			return err
		}
		from = programFile{typed: "accelerate config", name: own}
	}
	text, err := readProgramFile(from)
	if err != nil {
		return err
	}
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		return usage.Errorf("make it anew by accelerate config, or write flags", "%s: %w", from.name, err)
	}
	if len(document.Content) == 0 {
		return nil
	}
	if err := t.readKeys(document.Content[0]); err != nil {
		return usage.Errorf(usage.Hint(err), "%s: %w", from.name, err)
	}
	return nil
}

// readKeys translates the keys of a file of accelerate config, and those of its sections, which are
// named like flags.
func (t *translator) readKeys(keys *yaml.Node) error {
	for i := 0; keys.Kind == yaml.MappingNode && i+1 < len(keys.Content); i += 2 {
		key := keys.Content[i].Value
		value := keys.Content[i+1]
		var err error
		switch {
		case value.Kind == yaml.MappingNode:
			err = t.readKeys(value)
		case value.Kind == yaml.ScalarNode && value.Tag != "!!null":
			err = t.readKey(key, value.Value)
		case len(value.Content) > 0:
			t.ignored = append(t.ignored, key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readKey translates a key as the flag of its name. Some keys choose a flag by their value.
func (t *translator) readKey(key, value string) error {
	name := normalizeDashes(key)
	typed := key
	switch {
	case name == "main-training-function" || name == "compute-environment" && value == "LOCAL_MACHINE":
		return nil
	case name == "compute-environment":
		return unsupported("gorun starts no jobs there: run accelerate itself by its path", key+" "+value)
	case name == "distributed-type":
		name = map[string]string{"FSDP": "use-fsdp", "DEEPSPEED": "use-deepspeed", "MEGATRON_LM": "use-megatron-lm",
			"XLA": "tpu", "TPU": "tpu"}[value]
		typed += " " + value
		value = "true"
		if name == "" { // ranks that share nothing but the job
			return nil
		}
	case name == "fsdp-backward-prefetch-policy": // as older versions wrote it
		name = "fsdp-backward-prefetch"
	}
	rows := rowsOf(t.table.flags[name], Accelerate)
	switch {
	case rows == nil && slices.Contains([]string{"false", "no"}, value):
		return nil
	case rows == nil:
		t.ignored = append(t.ignored, key+"="+value)
		return nil
	case slices.ContainsFunc(rows, func(w *word) bool { return t.given[w] }) || rows[0].args == 0 && !isOn(value):
		return nil
	case rows[0].args == 0:
		return t.apply(meaning{typed: typed, rows: rows}, nil)
	}
	return t.apply(meaning{typed: typed, rows: rows, args: rows[0].args}, []string{value})
}

// huggingFace returns the folder of Hugging Face's programs for their files.
func (t *translator) huggingFace() string {
	return cmp.Or(t.environ["HF_HOME"], filepath.Join(cmp.Or(t.environ["XDG_CACHE_HOME"],
		filepath.Join(t.environ["HOME"], ".cache")), "huggingface"))
}

// deepspeedEnvironment adds the files of variables that deepspeed reads for a job on hosts: of the
// home directory, and of the current one, which wins.
func (t *translator) deepspeedEnvironment() error {
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	for _, dir := range []string{t.environ["HOME"], here} {
		file := cmp.Or(t.environ["DS_ENV_FILE"], ".deepspeed_env")
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		exists, err := usesDefault(file, "--env-file")
		if err != nil {
			return err
		}
		if exists {
			t.emit("env-file", "deepspeed", file)
		}
	}
	return nil
}
