package endings

import (
	"time"

	"github.com/onceguard/onceguard/guard"
)

// tooShort is a timeout that the activity misses when it hangs. The attempt that comes
// after it must be served within it, on a machine that is busy.
const tooShort = 2 * time.Second

// outlived lets the first attempt end when the second one has asked for its key.
func outlived(l *lab) {
	l.start()
	run := l.begin()
	l.effect()
	l.askedTwice()
	close(l.goOn)
	l.over(run)
}

func ofTimeouts() []ending {
	// An attempt that heeds its timeout has left its key when the next one comes.
	heeded := plan{StartToClose: time.Second, Pause: time.Second}
	return []ending{
		{
			name: "start-to-close timeout, the activity runs on, `Wait`", run: outlived,
			setup: setup{then: hangs, plan: plan{StartToClose: tooShort}},
		},
		{
			name: "start-to-close timeout, the activity runs on, `Refuse`", run: outlived,
			setup: setup{
				then: hangs, plan: plan{StartToClose: tooShort}, lease: time.Second,
				options: []guard.OperationOption{guard.OnInFlight(guard.Refuse)},
			},
		},
		{name: "start-to-close timeout, heeded", setup: setup{then: heeds, plan: heeded}},
		{name: "start-to-close timeout, heeded, `AtMostOnce`", setup: setup{then: heeds, plan: heeded, options: atMostOnce()}},
		{
			name: "heartbeat timeout, the activity runs on", run: outlived,
			setup: setup{then: hangs, plan: plan{Heartbeat: time.Second}},
		},
		{
			name: "schedule-to-close timeout, the activity runs on", run: func(l *lab) {
				l.start()
				l.over(l.begin())
				close(l.goOn)
			},
			setup: setup{then: hangs, plan: plan{ScheduleToClose: time.Second}},
		},
	}
}
