package cli

import "github.com/spf13/cobra"

func (a *app) stageExplainCommand() *cobra.Command { return &cobra.Command{Use: "explain"} }
