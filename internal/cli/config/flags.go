package config

import (
	"encoding/csv"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/rehearse-k8s/rehearse/api/rehearse/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/cli/console"
)

// Places maps the flags that a file has set to the places of their fields.
type Places map[string]string

// Apply sets the flags that the command line does not set. They count as changed afterwards. If two fields of the file stand for
// one flag, the later setting applies: that of the Cluster after those of KWOK's kinds.
func (f *File) Apply(flags *pflag.FlagSet) (Places, error) {
	names := flagNames(flags)
	last := map[string]Setting{}
	for _, s := range f.Settings {
		name := FlagName(s.Field, names)
		if name == "" {
			return nil, fmt.Errorf("%s: no flag has this name", s.Place)
		}
		last[name] = s
	}
	set := Places{}
	for name, s := range last {
		if flags.Changed(name) {
			continue
		}
		value := s.Values[0]
		if s.IsList {
			value = Line(s.Values)
		}
		if err := flags.Set(name, value); err != nil {
			return nil, console.Usagef("--config: %s: %s: %v", s.Place, value, err)
		}
		set[name] = s.Place
	}
	return set, nil
}

// Line is the form in which a list flag accepts several values.
func Line(values []string) string {
	var b strings.Builder
	w := csv.NewWriter(&b)
	_ = w.Write(values) // a strings.Builder accepts everything
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n")
}

// Explain adds the place of the field to an error that begins with the flag that the field stands for.
func (p Places) Explain(err error) error {
	if err == nil {
		return nil
	}
	text, ok := strings.CutPrefix(err.Error(), "--")
	if !ok || console.ExitCode(err) != console.ExitUsage {
		return err
	}
	end := strings.IndexFunc(text, func(r rune) bool { return r != '-' && (r < 'a' || r > 'z') })
	if place := p[text[:max(end, 0)]]; place != "" {
		return console.Usagef("--config: %s: --%s", place, text)
	}
	return err
}

func flagNames(flags *pflag.FlagSet) []string {
	var out []string
	flags.VisitAll(func(f *pflag.Flag) { out = append(out, f.Name) })
	return out
}

// Marshal prints the values of flags as a Cluster. Paths are absolute, so that the file can be moved.
func Marshal(flags *pflag.FlagSet) ([]byte, error) {
	c := v1alpha1.Cluster{}
	c.APIVersion, c.Kind = v1alpha1.GroupVersion.String(), v1alpha1.ClusterKind
	c.Name = flags.Lookup(nameFlag).Value.String()
	names := flagNames(flags)
	for _, f := range fields() {
		flag := flags.Lookup(FlagName(f.name, names))
		if flag == nil {
			return nil, fmt.Errorf("field %s: no flag has this name", f.name)
		}
		values := []string{flag.Value.String()}
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			values = slices.Clone(list.GetSlice())
		}
		if slices.Contains(paths, f.name) {
			for i := range values {
				values[i] = absolute(values[i])
			}
		}
		if err := set(reflect.ValueOf(&c.Spec).Elem().Field(f.index), values); err != nil {
			return nil, fmt.Errorf("field %s: %w", f.name, err)
		}
	}
	return yaml.Marshal(c)
}

func absolute(path string) string {
	if path == "" {
		return path
	}
	dir, err := filepath.Abs(".")
	if err != nil {
		return path
	}
	return resolve(dir, path)
}

// set converts the value of a flag to the type of its field.
func set(to reflect.Value, values []string) (err error) {
	switch to.Interface().(type) {
	case *int:
		var n int
		n, err = strconv.Atoi(values[0])
		to.Set(reflect.ValueOf(&n))
	case *bool:
		var b bool
		b, err = strconv.ParseBool(values[0])
		to.Set(reflect.ValueOf(&b))
	case *metav1.Duration:
		var d time.Duration
		d, err = time.ParseDuration(values[0])
		to.Set(reflect.ValueOf(&metav1.Duration{Duration: d}))
	case []string:
		to.Set(reflect.ValueOf(values))
	case string:
		to.SetString(values[0])
	default:
		err = fmt.Errorf("type %s is not supported", to.Type())
	}
	return err
}
