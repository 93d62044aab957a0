package report

import (
	"encoding/json"
	"io"
)

// WriteJSON writes a report for programs; docs/reference/report.md has its fields.
func WriteJSON(w io.Writer, r *Report) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}
