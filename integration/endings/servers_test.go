package endings

import (
	"path/filepath"

	"github.com/onceguard/onceguard/internal/realtest"
)

func ofServers() []ending {
	return []ending{{
		name: "the Temporal server restarts, the activity ends meanwhile", setup: setup{then: hangs}, run: func(l *lab) {
			server := realtest.Temporal(l.t, "--db-filename", filepath.Join(l.t.TempDir(), "temporal"))
			l.site = newSite(l.t, server)
			l.start()
			run := l.begin()
			l.effect()
			server.Kill()
			close(l.goOn)
			l.idle()
			server.Start()
			l.over(run)
		},
	}}
}
