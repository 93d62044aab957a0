package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// output is a -o flag. Its values are checked while flags are parsed, before anything is done.
type output struct {
	value   string
	allowed []string
}

func (o *output) addFlag(cmd *cobra.Command, allowed ...string) {
	o.allowed = allowed
	cmd.Flags().VarP(o, "output", "o", "output format: "+strings.Join(allowed, "|"))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp))
}

// Set, String and Type make it a pflag.Value.
func (o *output) Set(v string) error {
	if !slices.Contains(o.allowed, v) {
		return fmt.Errorf("must be one of %s", strings.Join(o.allowed, ", "))
	}
	o.value = v
	return nil
}

func (o *output) String() string { return o.value }

// Type is the word in the help text.
func (o *output) Type() string { return "format" }

func (o *output) machine() bool { return o.value == "json" || o.value == "yaml" }

// print writes v as JSON or YAML.
func (o *output) print(w io.Writer, v any) error {
	if o.value == "yaml" {
		data, err := yaml.Marshal(v)
		if err == nil {
			_, err = w.Write(data)
		}
		return err
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
