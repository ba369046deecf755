package settings

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"
)

// FileOf returns a file of defaults, as [ReadDefaults] reads it, that has the named flags with
// their values. Each has its meaning as a comment. Relative paths start at dir, but "." stays the
// folder in which a run is started.
func FileOf(flags *pflag.FlagSet, names []string, dir string) ([]byte, error) {
	all := FlagsByName()
	root := &yaml.Node{Kind: yaml.MappingNode}
	for _, name := range names {
		known, found := all[name]
		if !found || name == "config" || name == "config-file" {
			continue
		}
		key := &yaml.Node{
			Kind:        yaml.ScalarNode,
			Value:       name,
			HeadComment: strings.Split(known.Usage, "\n")[0],
		}
		root.Content = append(root.Content, key, valueOf(flags.Lookup(name), dir))
	}
	if len(root.Content) == 0 {
		return nil, nil // YAML has {} for no settings, which a user could not go on with
	}
	text, err := yaml.Marshal(root)
	if err != nil {
		return nil, fmt.Errorf("write the settings: %w", err)
	}
	return text, nil
}

// valueOf returns the value of a flag as a file has it.
func valueOf(f *pflag.Flag, dir string) *yaml.Node {
	text := func(value string) *yaml.Node {
		if value != "." {
			value = pathFrom(dir, "", f.Name, value)
		}
		return scalar(value)
	}
	list, several := f.Value.(pflag.SliceValue)
	if !several {
		return text(f.Value.String())
	}
	node := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for _, value := range list.GetSlice() {
		node.Content = append(node.Content, text(value))
	}
	return node
}

// scalar returns a value that YAML reads as the text that it is, or as the number or truth value
// that it looks like.
func scalar(value string) *yaml.Node {
	node := &yaml.Node{}
	node.SetString(value)
	if value == "true" || value == "false" || strings.Trim(value, "0123456789") == "" && value != "" {
		node.Tag = ""
	}
	return node
}
