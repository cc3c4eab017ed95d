"""The board's own pages stand before django-machina's, under the same paths, so that machina's links lead to them."""

from __future__ import annotations

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import include, path

from minibench.apps.forum.board import views

THREAD = "forum/<str:forum_slug>-<int:forum_pk>/topic/"

urlpatterns = [
    path("sign-in/", LoginView.as_view(template_name="sign_in.html"), name="sign_in"),
    path("sign-out/", LogoutView.as_view(), name="sign_out"),
    path("forum/<str:slug>-<int:pk>/", views.RoomView.as_view()),
    path(THREAD + "create/", views.ThreadCreateView.as_view()),
    path(THREAD + "<str:topic_slug>-<int:topic_pk>/post/create/", views.AnswerCreateView.as_view()),
    path("search/", views.LookUpView.as_view()),
    path("member/profile/<str:pk>/posts/", views.EntriesView.as_view()),
    path("member/topic/<int:pk>/subscribe/", views.PackView.as_view()),
    path("member/topic/<int:pk>/unsubscribe/", views.UnpackView.as_view()),
    path("moderation/topic/<str:slug>-<int:pk>/lock/", views.SealView.as_view()),
    path("moderation/queue/<int:pk>/approve/", views.LetThroughView.as_view()),
    path("moderation/queue/<int:pk>/disapprove/", views.TurnAwayView.as_view()),
    path("", include("machina.urls")),
]
