package endings

import (
	"path/filepath"

	"github.com/onceguard/onceguard/internal/realtest"
)

// ownServer gives the scenario a server that can be killed and started again.
func (l *lab) ownServer() *realtest.TemporalServer {
	l.t.Helper()
	server := realtest.Temporal(l.t, "--db-filename", filepath.Join(l.t.TempDir(), "temporal"))
	l.site = newSite(l.t, server)
	return server
}

func ofServers() []ending {
	return []ending{
		{
			name: "the Temporal server restarts, the activity ends meanwhile", setup: setup{then: hangs}, run: func(l *lab) {
				server := l.ownServer()
				l.start()
				run := l.begin()
				l.effect()
				server.Kill()
				close(l.goOn)
				l.idle()
				server.Start()
				l.over(run)
			},
		},
		{
			name: "the Temporal server restarts, the activity runs on past its timeout", run: func(l *lab) {
				server := l.ownServer()
				l.start()
				run := l.begin()
				l.effect()
				server.Kill()
				server.Start()
				l.askedTwice()
				close(l.goOn)
				l.over(run)
			},
			setup: setup{then: hangs, plan: plan{StartToClose: tooShort}},
		},
	}
}
