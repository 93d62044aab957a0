package cluster

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/rehearse-k8s/rehearse/internal/cli/config"
	"github.com/rehearse-k8s/rehearse/internal/cli/console"
	"github.com/rehearse-k8s/rehearse/internal/stagefiles"
)

// readConfig sets the flags that the file of --config contains and the command line does not, and reports what files contain
// without effect. If the file contains stages, it is one of the files of --stages.
func (a *app) readConfig(cmd *cobra.Command, o *upOptions) (config.Places, error) {
	if err := console.RejectEmpty(cmd, "config", "stages"); err != nil {
		return nil, err
	}
	if o.config == "" {
		return nil, a.warnIgnored(o.cluster.StageFiles)
	}
	file, err := config.Read(a.Console, o.config)
	if err != nil {
		return nil, err
	}
	if file.HasStages && o.config == console.Stdin {
		return nil, console.Usagef("--config -: standard input contains stages; write them to a file")
	}
	replaced := cmd.Flag("stages").Changed // by the command line
	places, err := file.Apply(cmd.Flags())
	if err != nil {
		return nil, err
	}
	for _, w := range file.Warnings {
		a.Say("rehearse: warning: %s", w)
	}
	if err := a.warnIgnored(o.cluster.StageFiles); err != nil {
		return nil, places.Explain(err)
	}
	if file.HasStages && !replaced {
		path, err := filepath.Abs(o.config)
		if err != nil {
			return nil, err
		}
		if err := cmd.Flags().Set("stages", config.Line([]string{path})); err != nil { // adds to spec.stages
			return nil, err
		}
	}
	return places, nil
}

// warnIgnored reports the objects in files of stages that have no effect. The cluster itself reports invalid files.
func (a *app) warnIgnored(names []string) error {
	files, err := stagefiles.Read(names)
	if err != nil {
		return console.Usagef("--stages: %v", err)
	}
	for _, k := range stagefiles.Split(files...).Ignored {
		a.Say("rehearse: warning: %s", k.Warning())
	}
	return nil
}
