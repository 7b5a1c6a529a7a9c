package rules

import (
	"fmt"
	"strings"
	"time"
)

// Severities of the alerts.
const (
	// Critical is for what can cost money while nobody looks: wake somebody.
	Critical = "critical"
	// Warning is for what somebody must look into on the same working day.
	Warning = "warning"
	// Info is for what is to be mended and harms no call.
	Info = "info"
)

// Runbooks is where the runbook pages are, one of the name of each alert.
const Runbooks = "https://github.com/onceguard/onceguard/blob/main/docs/runbooks/"

// RunbookURL is the address of an alert's page.
func RunbookURL(alert string) string { return Runbooks + alert + ".md" }

// alert is a rule with the words that each must have.
type alert struct {
	name, severity  string
	wait            time.Duration // how long it must last
	expr            string
	summary         string
	meaning, action string
}

func (p pace) rule(a alert) Rule {
	return Rule{
		Alert:  a.name,
		Expr:   a.expr,
		For:    p.of(a.wait),
		Labels: map[string]string{"severity": a.severity},
		Annotations: map[string]string{
			"summary":     a.summary,
			"description": a.meaning + "\nFirst: " + a.action,
			"runbook_url": RunbookURL(a.name),
		},
	}
}

func lines(s ...string) string { return strings.Join(s, "\n") }

// happened is how often a counter moved, by job, operation and what is named beside. What moved before the first scrape
// of a process, such as the keys that it finds held when it starts, is its first value, which increase does not see.
func (p pace) happened(window time.Duration, selector string, by ...string) string {
	w := p.of(window)
	return fmt.Sprintf("sum by (%[1]s) (increase(%[2]s[%[3]s]) > 0 or (min_over_time(%[2]s[%[3]s]) > 0 unless %[2]s offset %[3]s))",
		strings.Join(append([]string{"job", "operation"}, by...), ", "), selector, w)
}
