package cluster

import (
	"context"
	"log/slog"
	"os"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/internal/controller/podcache"
	"github.com/rehearse-k8s/rehearse/internal/controller/stages"
	"github.com/rehearse-k8s/rehearse/stage"
)

// loadStages reads the stages to play: the built-in ones, or the user's files. An invalid file is a *UsageError with the file
// and the reason.
func loadStages(files []string) (*stage.Set, error) {
	if len(files) == 0 {
		stages, err := stage.Builtin()
		if err != nil {
			return nil, err
		}
		return stage.Compile(stages)
	}
	files, err := StageFiles(files)
	if err != nil {
		return nil, usage("--stages: %v", err)
	}
	var all []stage.Stage
	for _, name := range files {
		stages, err := loadStageFile(name)
		if err != nil {
			return nil, usage("--stages: %v", err)
		}
		all = append(all, stages...)
	}
	set, err := stage.Compile(all)
	if err != nil {
		return nil, usage("--stages: %v", err)
	}
	return set, nil
}

func loadStageFile(name string) ([]stage.Stage, error) {
	if strings.HasPrefix(name, stage.BuiltinPrefix) {
		return stage.Builtin(name)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return stage.Load(name, data)
}

// startStages prepares the stage engine for the nodes that are annotated as simulated, and returns its run function.
func startStages(config *rest.Config, set *stage.Set, pods *podcache.Cache, m *metrics) (func(context.Context), error) {
	engine, err := stages.NewStageEngine(config, stages.StageOptions{
		Stages: set, Watch: true, Logger: slog.Default(), Metrics: m.engine, Pods: pods,
	})
	if err != nil {
		return nil, err
	}
	m.watch(engine)
	return func(ctx context.Context) {
		if err := engine.Run(ctx); err != nil {
			slog.Error("stage engine stopped", "error", err)
		}
	}, nil
}
