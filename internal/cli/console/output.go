package console

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// Output is an -o flag. Its values are checked while flags are parsed, before the command does anything.
type Output struct {
	value   string
	allowed []string
}

// NewOutput returns a format flag with these values and this default.
func NewOutput(value string, allowed ...string) Output { return Output{value: value, allowed: allowed} }

// AddFlag adds -o with a long name to a command.
func (o *Output) AddFlag(cmd *cobra.Command, name string) {
	cmd.Flags().VarP(o, name, "o", "output format: "+strings.Join(o.allowed, "|"))
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(o.allowed, cobra.ShellCompDirectiveNoFileComp))
}

// Set implements pflag.Value.
func (o *Output) Set(v string) error {
	if !o.Allows(v) {
		return fmt.Errorf("must be one of %s", strings.Join(o.allowed, ", "))
	}
	o.value = v
	return nil
}

// String implements pflag.Value; it is the chosen format, or empty.
func (o *Output) String() string { return o.value }

// Type implements pflag.Value; it is the placeholder in the help text.
func (o *Output) Type() string { return "format" }

// Allows reports whether v is one of the formats.
func (o *Output) Allows(v string) bool { return slices.Contains(o.allowed, v) }

// IsMachineReadable reports whether the format is JSON or YAML.
func (o *Output) IsMachineReadable() bool { return o.value == "json" || o.value == "yaml" }

// Print writes v as JSON or YAML.
func (o *Output) Print(w io.Writer, v any) error {
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
