//! The 23 actions by name.

/// Hands the names of all actions to another macro.
macro_rules! each_action {
    ($then:ident) => {
        $then! {
            AddPermission,
            CancelMessageMoveTask,
            ChangeMessageVisibility,
            ChangeMessageVisibilityBatch,
            CreateQueue,
            DeleteMessage,
            DeleteMessageBatch,
            DeleteQueue,
            GetQueueAttributes,
            GetQueueUrl,
            ListDeadLetterSourceQueues,
            ListMessageMoveTasks,
            ListQueueTags,
            ListQueues,
            PurgeQueue,
            ReceiveMessage,
            RemovePermission,
            SendMessage,
            SendMessageBatch,
            SetQueueAttributes,
            StartMessageMoveTask,
            TagQueue,
            UntagQueue,
        }
    };
}
pub(crate) use each_action;

macro_rules! actions {
    ($($name:ident,)*) => {
        /// What can be asked.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Action {
            $(#[doc = concat!("`", stringify!($name), "`.")] $name,)*
        }

        impl Action {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// As on the wire.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }
        }
    };
}

each_action!(actions);

impl Action {
    /// The action of this name; case counts.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|action| action.name() == name)
    }
}
