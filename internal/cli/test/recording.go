package test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rehearse-k8s/rehearse/api/rehearse/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/snapshot"
	"github.com/rehearse-k8s/rehearse/internal/snapshot/transfer"
	"github.com/rehearse-k8s/rehearse/internal/snapshot/useractions"
	"github.com/rehearse-k8s/rehearse/scenario"
)

// recordingOptions are the flags of test that make a scenario of a recording.
type recordingOptions struct {
	file     string
	managers []string
	out      string
}

func (o *recordingOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.file, "from-recording", "", "recording (rehearse snapshot record) whose users' actions are the steps; SCENARIO, if given, adds its clients, invariants and faults")
	f.StringSliceVar(&o.managers, "user-manager", useractions.DefaultManagers, "with --from-recording: patterns of the field managers whose writes are a user's")
	f.StringVar(&o.out, "write-scenario", "", "with --from-recording: file to write the scenario to (default: DIR/NAME/scenario.yaml, with the DIR of --failures)")
}

// validate checks the flags that only have an effect together.
func (o *recordingOptions) validate(cmd *cobra.Command, scenarios []string) error {
	changed := cmd.Flags().Changed
	switch {
	case o.file == "" && changed("from-recording"):
		return console.Usagef("--from-recording is empty")
	case o.file == "" && changed("user-manager"):
		return console.Usagef("--user-manager requires --from-recording")
	case o.file == "" && changed("write-scenario"):
		return console.Usagef("--write-scenario requires --from-recording")
	case o.file != "" && len(scenarios) > 1:
		return console.Usagef("--from-recording takes one SCENARIO at most, and %d are given", len(scenarios))
	case changed("write-scenario") && o.out == "":
		return console.Usagef("--write-scenario is empty")
	}
	return nil
}

// fromRecording writes the scenario of a recording, and returns its file. The base is a scenario whose clients, invariants and
// faults it takes, or "".
func (a *app) fromRecording(o *testOptions, base string) (file string, err error) {
	result, err := readActions(o.recording.file, o.recording.managers)
	if err != nil {
		return "", console.Usagef("--from-recording %s: %v", o.recording.file, err)
	}
	name, of, dir := scenarioName(o.recording.file), (*v1alpha1.Scenario)(nil), "."
	if base != "" {
		s, err := a.readScenario(base, nil)
		if err != nil {
			return "", console.Usagef("%v", err)
		}
		name, of, dir = s.Name, s.Document(), filepath.Dir(s.File)
	}
	if file = o.recording.out; file == "" {
		file = filepath.Join(o.failures, name, "scenario.yaml")
	}
	if of != nil {
		if err := useractions.MoveFiles(of, dir, filepath.Dir(file)); err != nil {
			return "", err
		}
	}
	description := fmt.Sprintf("What users did in the recording %s: %s.", filepath.Base(o.recording.file), console.Count(len(result.Actions), "action"))
	s, err := result.Scenario(name, description, of)
	if err != nil {
		return "", err
	}
	comments := []string{"From a recording: edit it, and pass this file as SCENARIO."}
	for _, text := range result.LeftOut {
		a.Say("rehearse: %s: left out %s", o.recording.file, text)
		comments = append(comments, "Left out: "+text+".")
	}
	data, err := useractions.Encode(s, comments)
	if err != nil {
		return "", err
	}
	if len(data) > scenario.MostBytes {
		return "", console.Usagef("--from-recording %s: its %s and %s make a scenario of %s, more than the %s that are read: record less (--only, --namespace, --selector or --for of 'rehearse snapshot record'), or name fewer users with --user-manager",
			o.recording.file, console.Count(len(result.Objects), "object"), console.Count(len(result.Actions), "action"), humanize.IBytes(uint64(len(data))), humanize.IBytes(scenario.MostBytes))
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return "", console.Usagef("write the scenario: %v", err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil { // it may contain Secrets
		return "", console.Usagef("write the scenario: %v", err)
	}
	a.Say("rehearse: wrote %s: %s, %s", file, console.Count(len(result.Objects), "object"), console.Count(len(result.Actions), "action"))
	return file, nil
}

// readActions reads a recording.
func readActions(file string, managers []string) (*useractions.Result, error) {
	in, err := os.Open(file)
	if err != nil {
		if of := (*fs.PathError)(nil); errors.As(err, &of) {
			err = of.Err // the caller names the file
		}
		return nil, err
	}
	defer func() { _ = in.Close() }()
	r, err := snapshot.NewReader(in)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	for {
		o, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		objects = append(objects, o)
	}
	if !r.IsRecording() {
		return nil, errors.New("is a snapshot, without changes: record with 'rehearse snapshot record'")
	}
	var changes []snapshot.Change
	for {
		c, err := r.NextChange()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		changes = append(changes, c)
	}
	result, err := useractions.Find(objects, changes, managers, transfer.IsBuiltIn)
	if err == nil && len(result.Actions) == 0 {
		return nil, fmt.Errorf("no user changed anything: of %s, none is by a field manager that matches %s (--user-manager); the managers are: %s",
			console.Count(len(changes), "change"), strings.Join(managers, ", "), strings.Join(useractions.Managers(changes), ", "))
	}
	return result, err
}

var notInName = regexp.MustCompile(`[^a-z0-9]+`)

// scenarioName makes the name of a scenario of that of a file.
func scenarioName(file string) string {
	base, _, _ := strings.Cut(filepath.Base(file), ".")
	if name := strings.Trim(notInName.ReplaceAllString(strings.ToLower(base), "-"), "-"); name != "" {
		return name
	}
	return "recording"
}
