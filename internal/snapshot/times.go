package snapshot

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// offsetTime matches a time in a recording of KWOK, which replaces each time by its distance from the start.
var offsetTime = regexp.MustCompile(`\$\(time-offset-nanosecond (-?\d+)\)`)

// timeFormat is read by both time types of Kubernetes; the one with microseconds requires six digits.
const timeFormat = "2006-01-02T15:04:05.000000Z07:00"

// ResolveTimes replaces each time of KWOK's form in the strings of a value by the time at that distance from start.
func ResolveTimes(v any, start time.Time) any {
	switch v := v.(type) {
	case map[string]any:
		for k, child := range v {
			v[k] = ResolveTimes(child, start)
		}
	case []any:
		for i, child := range v {
			v[i] = ResolveTimes(child, start)
		}
	case string:
		if !strings.Contains(v, "$(time-offset-nanosecond ") {
			return v
		}
		return offsetTime.ReplaceAllStringFunc(v, func(s string) string {
			n, err := strconv.ParseInt(offsetTime.FindStringSubmatch(s)[1], 10, 64)
			if err != nil {
				return s
			}
			return start.Add(time.Duration(n)).UTC().Format(timeFormat)
		})
	}
	return v
}
