package cluster

import (
	"github.com/rehearse-k8s/rehearse/internal/stagefiles"
	"github.com/rehearse-k8s/rehearse/stage"
)

// LoadStages reads the stages of files like Options.StageFiles, and ignores objects of other kinds. Its error is a *UsageError.
func LoadStages(files []string) (*stage.Set, error) {
	set, _, err := loadFiles(files)
	return set, err
}

// StageFiles replaces directories in names with the YAML and JSON files in them, or with those that the directory's kustomization
// lists. A directory without such a file is an error.
func StageFiles(names []string) (files []string, err error) { return stagefiles.Expand(names) }
