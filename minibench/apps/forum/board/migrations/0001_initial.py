"""Tables of the thread and answer cards."""

from typing import Any, ClassVar

from django.db import migrations, models

from minibench.apps.forum.board.models import SealReason, Season, Setup, Sureness

KEY = models.AutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")


class Migration(migrations.Migration):
    """The whole schema of the board: it is only ever created anew."""

    initial = True
    dependencies: ClassVar[list[Any]] = [("forum_conversation", "0013_auto_20201220_1745")]
    operations: ClassVar[list[Any]] = [
        migrations.CreateModel(
            name="AnswerCard",
            fields=[
                ("id", KEY),
                ("sureness", models.CharField(choices=Sureness.choices, max_length=10)),
                ("post", models.OneToOneField("forum_conversation.Post", models.CASCADE, related_name="card")),
            ],
        ),
        migrations.CreateModel(
            name="ThreadCard",
            fields=[
                ("id", KEY),
                ("setup", models.CharField(choices=Setup.choices, max_length=10)),
                ("season", models.CharField(choices=Season.choices, max_length=10)),
                ("price", models.CharField(blank=True, max_length=20)),
                ("seal_reason", models.CharField(blank=True, choices=SealReason.choices, max_length=10)),
                ("topic", models.OneToOneField("forum_conversation.Topic", models.CASCADE, related_name="card")),
            ],
        ),
    ]
